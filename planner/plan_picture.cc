#include "planner/plan_picture.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "absl/strings/str_format.h"
#include "base/markup.h"

namespace sluice {
namespace {

constexpr double kWidth = 1200, kHeight = 640, kMargin = 48;
// Calm colours that neighbours can be told apart by.
constexpr std::array<std::string_view, 6> kColours = {"#7fa8d9", "#8fc7a6", "#d9b77f",
                                                      "#b79ad1", "#d98f8f", "#8fc3c9"};
// Activations beside weights: cool, and warm.
constexpr std::array<std::string_view, 3> kCool = {"#7fa8d9", "#8fc7a6", "#8fc3c9"};
constexpr std::array<std::string_view, 3> kWarm = {"#e08a5b", "#d9a441", "#cf6f6f"};

// What stands in the legend and in pictures of weights that wait.
constexpr double kPale = 0.4;

class Picture {
 public:
  struct Box {
    Bytes offset, size;
    StepRange live;
    std::string_view colour;
    double opacity = 1;
    std::string text;  // Not escaped.
  };

  // Draws steps [first, end) and addresses up to `height`.
  Picture(std::size_t first_step, std::size_t end_step, Bytes height)
      : first_step_(first_step), end_step_(end_step), height_(height) {
    svg_ = absl::StrFormat(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
        "font-family=\"sans-serif\" font-size=\"13\">\n"
        "<style>rect:hover{stroke:#000;stroke-width:2}</style>\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
        kWidth + 2 * kMargin, kHeight + 2 * kMargin);
  }

  void AddBox(const Box& box) {
    const double x = X(Index(box.live.begin)), y = Y(box.offset + box.size);
    absl::StrAppendFormat(&svg_,
                          "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" "
                          "fill-opacity=\"%.1f\" stroke=\"#fff\" stroke-width=\"0.5\"><title>%s"
                          "</title></rect>\n",
                          x, y, X(Index(box.live.end)) - x, Y(box.offset) - y, box.colour,
                          box.opacity, EscapeMarkup(box.text));
  }

  void AddLine(std::string_view name, Bytes address, std::string_view colour, double indent) {
    absl::StrAppendFormat(&svg_,
                          "<line x1=\"%.0f\" x2=\"%.0f\" y1=\"%.2f\" y2=\"%.2f\" stroke=\"%s\" "
                          "stroke-dasharray=\"6 4\"/>\n",
                          kMargin, kMargin + kWidth, Y(address), Y(address), colour);
    AddText(kMargin + indent, Y(address) - 6, colour,
            absl::StrFormat("%s %s", name, FormatBytes(address)));
  }

  // A square and what it stands for, below the picture.
  void AddLegend(double indent, std::string_view colour, double opacity, std::string_view text) {
    absl::StrAppendFormat(&svg_,
                          "<rect x=\"%.0f\" y=\"%.0f\" width=\"12\" height=\"12\" fill=\"%s\" "
                          "fill-opacity=\"%.1f\"/>\n",
                          kMargin + indent, kHeight + kMargin + 14, colour, opacity);
    AddNote(indent + 18, text);
  }
  void AddNote(double indent, std::string_view text) {
    AddText(kMargin + indent, kHeight + kMargin + 24, "#000", text);
  }

  std::string Finish() && {
    AddNote(0, absl::StrFormat("steps %d to %d", first_step_, end_step_));
    svg_ += "</svg>\n";
    return std::move(svg_);
  }

 private:
  double X(std::size_t step) const {
    const auto steps = static_cast<double>(std::max<std::size_t>(end_step_ - first_step_, 1));
    return kMargin + kWidth * static_cast<double>(step - first_step_) / steps;
  }
  double Y(Bytes address) const {
    const auto height = static_cast<double>(std::max<std::uint64_t>(height_.count(), 1));
    return kMargin + kHeight * (1 - static_cast<double>(address.count()) / height);
  }
  void AddText(double x, double y, std::string_view colour, std::string_view text) {
    absl::StrAppendFormat(&svg_, "<text x=\"%.0f\" y=\"%.2f\" fill=\"%s\">%s</text>\n", x, y,
                          colour, EscapeMarkup(text));
  }

  const std::size_t first_step_, end_step_;
  const Bytes height_;
  std::string svg_;
};

Picture::Box BoxOf(std::string_view name, const UsageRecord& record, Bytes offset,
                   std::string_view colour) {
  return {.offset = offset,
          .size = record.size,
          .live = record.live,
          .colour = colour,
          .text = absl::StrFormat("%s: %s, steps %d to %d, bytes %d to %d", name,
                                  FormatBytes(record.size), Index(record.live.begin),
                                  Index(record.live.end), offset.count(),
                                  (offset + record.size).count())};
}

// A streamed extent: pale while it is read and waits, then as the steps use it.
void AddExtent(std::string_view name, Bytes size, const PlannedExtent& extent,
               const StepRange& used, const JointOutcome::Read& read, std::string_view colour,
               Picture& picture) {
  const StepIndex begin = extent.gate ? At<StepIndex>(Index(*extent.gate) + 1) : At<StepIndex>(0);
  const std::string gate =
      extent.gate ? absl::StrFormat("after step %d", Index(*extent.gate)) : "at the start";
  Picture::Box box{
      .offset = extent.offset,
      .size = size,
      .live = {.begin = begin, .end = used.begin},
      .colour = colour,
      .opacity = kPale,
      .text = absl::StrFormat("weights of %s: %s, read may begin %s, steps %d to %d use them, "
                              "bytes %d to %d; predicted to be read from %.3f to %.3f ms",
                              name, FormatBytes(size), gate, Index(used.begin), Index(used.end),
                              extent.offset.count(), (extent.offset + size).count(),
                              Seconds(read.begin) * 1000, Seconds(read.end) * 1000)};
  if (begin < used.begin) picture.AddBox(box);
  box.live = used;
  box.opacity = 1;
  picture.AddBox(box);
}

}  // namespace

std::string DrawPlan(const NamedRecords& problem, const CertifiedPlan& plan) {
  std::size_t first = problem.records.empty() ? 0 : ~std::size_t{0}, end = 0;
  for (const UsageRecord& record : problem.records) {
    first = std::min(first, Index(record.live.begin));
    end = std::max(end, Index(record.live.end));
  }
  Picture picture(first, end, plan.plan.height);
  for (std::size_t i = 0; i < problem.records.size(); ++i) {
    picture.AddBox(BoxOf(problem.ids[i], problem.records[i], plan.plan.offsets[i],
                         kColours[i % kColours.size()]));
  }
  picture.AddLine("peak", plan.plan.height, "#c0392b", 0);
  picture.AddLine("lower bound", plan.bound, "#2c3e50", 200);
  return std::move(picture).Finish();
}

std::string DrawJointPlan(const JointProblem& problem, const JointNames& names,
                          const JointPlan& plan) {
  const JointTimeline timeline(problem);
  const JointOutcome outcome = SimulateJointPlan(problem, plan);
  Picture picture(0, problem.steps.size(), plan.arena);
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    picture.AddBox(BoxOf(names.buffers[i], problem.buffers[i], plan.buffer_offsets[i],
                         kCool[i % kCool.size()]));
  }
  for (std::size_t k = 0; k < problem.extents.size(); ++k) {
    if (plan.extents[k].resident) continue;
    AddExtent(names.extents[k], problem.extents[k], plan.extents[k], timeline.used[k],
              outcome.reads[k], kWarm[k % kWarm.size()], picture);
  }
  picture.AddLine("peak", plan.arena, "#c0392b", 0);
  picture.AddLegend(150, kCool[0], 1, "activations");
  picture.AddLegend(270, kWarm[0], 1, "weights in use");
  picture.AddLegend(410, kWarm[0], kPale, "weights read ahead");
  picture.AddNote(
      600, absl::StrFormat("resident beside the arena: %s; %.3f ms predicted",
                           FormatBytes(plan.resident_bytes), Seconds(plan.predicted) * 1000));
  return std::move(picture).Finish();
}

}  // namespace sluice
