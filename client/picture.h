// client/picture.h
//
// Pictures of 8 bits a channel: read, resized, drawn on, written.

#ifndef SLUICE_CLIENT_PICTURE_H_
#define SLUICE_CLIENT_PICTURE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice {

using Colour = std::array<std::uint8_t, 3>;  // Red, green, blue.

// Rows from the top, pixels from the left, three bytes each.
struct Picture {
  std::size_t width = 0;
  std::size_t height = 0;
  std::vector<std::uint8_t> rgb;  // 3 * width * height.
};

// A rectangle of pixels, right and bottom excluded.
struct Box {
  std::size_t left = 0, top = 0, right = 0, bottom = 0;
  std::size_t width() const { return right - left; }
  std::size_t height() const { return bottom - top; }
  friend bool operator==(const Box&, const Box&) = default;
};

// More is refused before memory is taken for it.
inline constexpr std::size_t kMaxPixels = 64u * 1024 * 1024;

// True for what begins as a PNG, a JPEG, or a binary PPM or PGM file.
bool LooksLikePicture(std::string_view contents);

// Transparent parts are laid on white; grey becomes three equal channels.
// Fails: INVALID_ARGUMENT, of another kind, damaged, cut short, or over kMaxPixels; the message
//        begins with `where` and says what was found.
absl::StatusOr<Picture> DecodePicture(std::string_view contents, std::string_view where);

// Fails: as DecodePicture and ReadFile.
absl::StatusOr<Picture> ReadPicture(const std::filesystem::path& path);

// Fails: INTERNAL, the file cannot be written.
absl::Status WritePng(const Picture& picture, const std::filesystem::path& path);

// Bilinear, with pixel centres at half coordinates; where the picture shrinks the filter widens, so
// that every pixel counts. The same size gives the same pixels.
// Requires: a picture with pixels, and sides of 1 or more.
Picture Resize(const Picture& picture, std::size_t width, std::size_t height);

// Draw the outline of `box`, `thickness` pixels inwards, and `number` in white on a plate whose
// corner is given. What lies outside the picture is left out.
void DrawBox(const Box& box, std::size_t thickness, Colour colour, Picture& picture);
void DrawNumber(std::size_t number, std::size_t left, std::size_t top, std::size_t scale,
                Colour colour, Picture& picture);

// Of the plate, in pixels.
std::size_t NumberWidth(std::size_t number, std::size_t scale);

}  // namespace sluice

#endif  // SLUICE_CLIENT_PICTURE_H_
