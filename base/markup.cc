#include "base/markup.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sluice {

namespace {

// Bytes of the UTF-8 character that `text` begins with; zero when it begins with none, or with one
// that XML does not allow.
std::size_t CharacterSize(std::string_view text) {
  const auto byte = [&](std::size_t i) -> std::uint32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xc2) return 0;
  const std::size_t size = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  std::uint32_t code = first & (0x7fu >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0u) != 0x80u) return 0;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  const bool allowed =
      code >= kLeast[size] && code <= 0x10ffff && !surrogate && code != 0xfffe && code != 0xffff;
  return allowed ? size : 0;
}

}  // namespace

std::string EscapeMarkup(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  while (!text.empty()) {
    const std::size_t size = CharacterSize(text);
    const char c = text.front();
    const std::string_view character = text.substr(0, std::max<std::size_t>(size, 1));
    text.remove_prefix(character.size());
    if (size != 1) {
      escaped += size == 0 ? std::string_view("?") : character;
      continue;
    }
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return escaped;
}

}  // namespace sluice
