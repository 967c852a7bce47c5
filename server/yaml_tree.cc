#include "server/yaml_tree.h"

#include <yaml-cpp/anchor.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <sstream>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"

namespace sluice {
namespace {

// Builds the tree from the parser's events. After the first error events are counted, not kept.
class TreeBuilder : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Take(mark, anchor, YamlNode::Kind::kNull, {});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    Fail(mark, "got an alias, want the value itself (aliases are not supported)");
  }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                const std::string& value) override {
    Take(mark, anchor, YamlNode::Kind::kScalar, value);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, anchor, YamlNode::Kind::kList);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, anchor, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { Close(); }

  YamlNode TakeRoot() { return std::move(root_); }
  const std::string& error() const { return error_; }
  int error_line() const { return error_line_; }

 private:
  // An open list or map; `key` is set when a map has read a key and waits for its value.
  struct Frame {
    YamlNode node;
    std::string key;
    bool has_key = false;
  };

  void Fail(const YAML::Mark& mark, std::string error) {
    if (!error_.empty()) return;
    error_ = std::move(error);
    error_line_ = mark.line + 1;
  }

  void Open(const YAML::Mark& mark, YAML::anchor_t anchor, YamlNode::Kind kind) {
    RefuseAnchor(mark, anchor);
    ++depth_;
    if (depth_ > kMaxYamlDepth) {
      Fail(mark, absl::StrFormat("got more than %d levels of nesting, want fewer", kMaxYamlDepth));
    }
    if (!error_.empty()) return;
    if (!open_.empty() && open_.back().node.kind == YamlNode::Kind::kMap && !open_.back().has_key) {
      return Fail(mark, "got a list or map as a key, want a word");
    }
    Frame frame;
    frame.node.kind = kind;
    frame.node.line = mark.line + 1;
    open_.push_back(std::move(frame));
  }

  void Close() {
    --depth_;
    if (!error_.empty() || open_.empty()) return;
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    Place(std::move(node));
  }

  void Take(const YAML::Mark& mark, YAML::anchor_t anchor, YamlNode::Kind kind, std::string text) {
    RefuseAnchor(mark, anchor);
    if (!error_.empty()) return;
    if (!open_.empty() && open_.back().node.kind == YamlNode::Kind::kMap && !open_.back().has_key) {
      return TakeKey(mark, std::move(text));
    }
    YamlNode node;
    node.kind = kind;
    node.line = mark.line + 1;
    node.text = std::move(text);
    Place(std::move(node));
  }

  void TakeKey(const YAML::Mark& mark, std::string key) {
    Frame& frame = open_.back();
    for (const auto& [name, value] : frame.node.entries) {
      if (name == key) {
        return Fail(mark, absl::StrFormat("%s: got this key twice, want it once (first on line %d)",
                                          key.substr(0, 80), value.line));
      }
    }
    frame.key = std::move(key);
    frame.has_key = true;
  }

  void Place(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = open_.back();
    if (frame.node.kind == YamlNode::Kind::kList) {
      frame.node.items.push_back(std::move(node));
      return;
    }
    frame.node.entries.push_back({std::move(frame.key), std::move(node)});
    frame.key.clear();
    frame.has_key = false;
    if (frame.node.entries.size() > kMaxEntries) {
      error_ = absl::StrFormat("got more than %d keys in one map, want fewer", kMaxEntries);
      error_line_ = frame.node.line;
    }
  }

  void RefuseAnchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) {
      Fail(mark, "got an anchor, want a plain value (anchors are not supported)");
    }
  }

  // Keys are compared pairwise, so their number is bounded.
  static constexpr std::size_t kMaxEntries = 1000;

  YamlNode root_;
  std::vector<Frame> open_;
  int depth_ = 0;
  std::string error_;
  int error_line_ = 0;
};

absl::Status At(std::string_view name, int line, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrFormat("%s:%d: %s", name, line, what));
}

}  // namespace

absl::StatusOr<YamlNode> ParseYaml(std::string_view text, std::string_view name) {
  if (text.size() > kMaxYamlSize.count()) {
    return At(name, 1,
              absl::StrFormat("got a file of %d bytes, want at most %d", text.size(),
                              kMaxYamlSize.count()));
  }
  TreeBuilder builder;
  // The library reports errors by throwing; none leaves this function.
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) {
      YamlNode empty;
      empty.kind = YamlNode::Kind::kMap;
      empty.line = 1;
      return empty;
    }
    if (!builder.error().empty()) return At(name, builder.error_line(), builder.error());
    TreeBuilder second;
    if (parser.HandleNextDocument(second)) {
      return At(name, 1, "got several documents in one file, want one");
    }
  } catch (const YAML::Exception& error) {
    return At(name, error.mark.is_null() ? 1 : error.mark.line + 1,
              absl::StrFormat("got text that is not YAML, want YAML (%s)", error.msg));
  }
  YamlNode root = builder.TakeRoot();
  if (root.kind == YamlNode::Kind::kNull) root.kind = YamlNode::Kind::kMap;
  if (root.line == 0) root.line = 1;
  return root;
}

std::string Describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kList:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a map";
    case YamlNode::Kind::kScalar:
      break;
  }
  std::string shown;
  for (const char c : node.text.substr(0, 80)) {
    shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return absl::StrFormat("\"%s%s\"", shown, node.text.size() > 80 ? "..." : "");
}

}  // namespace sluice
