#include "server/compute_threads.h"

#include <sched.h>

#include <algorithm>

#include "absl/strings/str_format.h"
#include "server/control_groups.h"

namespace sluice {
namespace {

int AllowedCpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  return std::max(1, CPU_COUNT(&allowed));
}

}  // namespace

ThreadChoice ChooseThreads(const ThreadInputs& inputs) {
  ThreadChoice choice{.threads = inputs.allowed, .source = "affinity", .explanation = {}};
  if (inputs.quota && *inputs.quota < inputs.allowed) {
    choice.threads = std::max(1, static_cast<int>(*inputs.quota));
    choice.source = "quota";
  }
  if (inputs.configured > 0) {
    choice.threads = inputs.configured;
    choice.source = "configuration";
  }
  choice.explanation =
      absl::StrFormat("configuration %d, affinity %d, quota %s", inputs.configured, inputs.allowed,
                      inputs.quota ? absl::StrFormat("%.2f", *inputs.quota) : "none");
  return choice;
}

ThreadChoice ComputeThreads(const Config& config) {
  return ChooseThreads({.configured = config.threads,
                        .allowed = AllowedCpus(),
                        .quota = CpuQuota(OwnControlGroups("cpu"))});
}

}  // namespace sluice
