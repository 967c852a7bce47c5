#include "engine/widen_loops.h"

namespace sluice {

namespace widen_generic {
extern const WidenLoops kWidenLoops;
}
#ifdef SLUICE_X86_LOOPS
namespace widen_avx2 {
extern const WidenLoops kWidenLoops;
}
namespace widen_avx512 {
extern const WidenLoops kWidenLoops;
}
#endif

const WidenLoops* WidenLoopsFor(WidenIsa isa) {
#ifdef SLUICE_X86_LOOPS
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (isa == WidenIsa::kAvx2) {
    return __builtin_cpu_supports("avx2") ? &widen_avx2::kWidenLoops : nullptr;
  }
  if (isa == WidenIsa::kAvx512) return has_avx512 ? &widen_avx512::kWidenLoops : nullptr;
#endif
  return isa == WidenIsa::kGeneric ? &widen_generic::kWidenLoops : nullptr;
}

const WidenLoops& BestWidenLoops() {
  if (const WidenLoops* loops = WidenLoopsFor(WidenIsa::kAvx512)) return *loops;
  if (const WidenLoops* loops = WidenLoopsFor(WidenIsa::kAvx2)) return *loops;
  return widen_generic::kWidenLoops;
}

}  // namespace sluice
