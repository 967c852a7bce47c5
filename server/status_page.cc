#include "server/status_page.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/markup.h"

namespace sluice {
namespace {

constexpr std::string_view kHead =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
    "<meta name=\"viewport\" content=\"width=device-width\">"
    "<meta http-equiv=\"refresh\" content=\"5\"><title>Sluice</title><style>"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#222;background:#fff}"
    "h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}"
    ".bar{display:flex;height:1.6rem;background:#e6e6e6;border-radius:4px;overflow:hidden}"
    ".bar i{display:block;height:100%}"
    "table{border-collapse:collapse;width:100%}"
    "th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #ddd;vertical-align:top}"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}"
    ".key{display:inline-block;width:.8rem;height:.8rem;border-radius:2px;margin-right:.4rem}"
    ".READY{color:#176b2c}.LOADING{color:#8a5a00}.UNAVAILABLE{color:#a11212}"
    "@media (prefers-color-scheme:dark){body{color:#ddd;background:#181818}"
    "th,td{border-color:#444}.bar{background:#333}"
    ".READY{color:#6fce86}.LOADING{color:#e0b050}.UNAVAILABLE{color:#ff8080}}"
    "</style></head><body>\n";

constexpr std::string_view kColours[] = {"#4878a8", "#58a068", "#c08848",
                                         "#9068a8", "#b85858", "#588898"};

std::string_view ColourOf(std::size_t i) { return kColours[i % std::size(kColours)]; }

double Percent(Bytes part, Bytes whole) {
  if (whole == Bytes()) return 0;
  return std::min(100.0,
                  100.0 * static_cast<double>(part.count()) / static_cast<double>(whole.count()));
}

std::string Cell(const std::string& html) { return "<td>" + html + "</td>"; }
std::string Number(const std::string& html) { return "<td class=\"n\">" + html + "</td>"; }

std::string Budget(const MemoryReport& memory) {
  std::string html = absl::StrFormat(
      "<h2>Memory</h2><p>%s of %s reserved (budget from %s); the kernel counts %s now, %s at most, "
      "%s in swap. Weights are read by %s.</p>\n<div class=\"bar\">",
      FormatBytes(memory.reserved), FormatBytes(memory.budget), EscapeMarkup(memory.budget_source),
      FormatBytes(memory.resident), FormatBytes(memory.peak_resident), FormatBytes(memory.swapped),
      EscapeMarkup(memory.device));
  for (std::size_t i = 0; i < memory.lines.size(); ++i) {
    html += absl::StrFormat("<i style=\"width:%.2f%%;background:%s\"></i>",
                            Percent(memory.lines[i].reserved, memory.budget), ColourOf(i));
  }
  html +=
      "</div>\n<table><tr><th>Reserved for</th><th>Model</th><th class=\"n\">Bytes</th>"
      "<th class=\"n\">In use</th></tr>\n";
  for (std::size_t i = 0; i < memory.lines.size(); ++i) {
    const MemoryLedger::Line& line = memory.lines[i];
    html += absl::StrFormat("<tr><td><span class=\"key\" style=\"background:%s\"></span>%s</td>",
                            ColourOf(i), EscapeMarkup(line.line));
    html += Cell(line.model.empty() ? "all" : EscapeMarkup(line.model)) +
            Number(FormatBytes(line.reserved)) + Number(FormatBytes(line.used)) + "</tr>\n";
  }
  return html + "</table>\n";
}

std::string Milliseconds(const std::atomic<std::uint64_t>& nanoseconds) {
  const auto value = static_cast<double>(nanoseconds.load(std::memory_order_relaxed));
  return value == 0 ? "-" : absl::StrFormat("%.2f ms", value * 1e-6);
}

std::string Model(const ModelStatus& model) {
  const ModelStatistics& statistics = *model.statistics;
  std::string state =
      absl::StrFormat("<span class=\"%s\">%s</span>", Name(model.state), Name(model.state));
  if (!model.reason.empty()) state += "<br>" + EscapeMarkup(model.reason);
  return "<tr>" + Cell(EscapeMarkup(model.name)) + Cell(EscapeMarkup(model.version)) + Cell(state) +
         Number(FormatBytes(model.weights)) + Number(FormatBytes(model.resident)) +
         Number(FormatBytes(model.activations)) + Number(FormatBytes(model.ring)) +
         Number(absl::StrFormat("%d", statistics.requests[0].load(std::memory_order_relaxed))) +
         Number(Milliseconds(statistics.last_latency_ns)) +
         Number(Milliseconds(statistics.last_stall_ns)) + "</tr>\n";
}

}  // namespace

std::string StatusPage(const MetricsInput& input) {
  std::string html(kHead);
  html += absl::StrFormat(
      "<h1>Sluice %s</h1><p>%s, up for %.0f seconds. <a href=\"/metrics\">"
      "Metrics</a></p>\n",
      EscapeMarkup(SLUICE_VERSION), input.ready ? "Ready" : "Loading",
      Seconds(input.memory.uptime));
  html += Budget(input.memory);
  html +=
      "<h2>Models</h2><table><tr><th>Name</th><th>Version</th><th>State</th><th class=\"n\">Weights"
      "</th><th class=\"n\">In memory</th><th class=\"n\">Activations</th><th class=\"n\">Ring</th>"
      "<th class=\"n\">Answered</th><th class=\"n\">Last run</th><th "
      "class=\"n\">Waited</th></tr>\n";
  for (const ModelStatus& model : input.models) html += Model(model);
  return html + "</table></body></html>\n";
}

}  // namespace sluice
