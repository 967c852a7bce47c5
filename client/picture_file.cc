// Reading and writing the files of client/picture.h with libpng and libjpeg.

// jpeglib.h uses what it does not include, so order matters here.
// clang-format off
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on
#include <png.h>

#include <optional>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "client/file.h"
#include "client/picture.h"

namespace sluice {
namespace {

constexpr std::string_view kPngMagic = "\x89PNG\r\n\x1a\n";
constexpr std::string_view kJpegMagic = "\xff\xd8\xff";
constexpr Bytes kMaxPictureFile = Bytes::Of(256 * 1024 * 1024);

bool LooksLikeNetpbm(std::string_view contents) {
  return contents.size() > 2 && contents[0] == 'P' && (contents[1] == '5' || contents[1] == '6') &&
         (contents[2] == ' ' || contents[2] == '\n' || contents[2] == '\r' || contents[2] == '\t');
}

absl::Status Damaged(std::string_view where, std::string_view kind, std::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: got a damaged %s file, want a whole one: %s", where, kind, why));
}

absl::Status CheckSize(std::string_view where, std::uint64_t width, std::uint64_t height) {
  if (width > 0 && height > 0 && width <= kMaxPixels && height <= kMaxPixels / width) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: got a picture of %d x %d pixels, want 1 to %d pixels in all", where,
                      width, height, kMaxPixels));
}

absl::StatusOr<Picture> DecodePng(std::string_view contents, std::string_view where) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_memory(&image, contents.data(), contents.size()) == 0) {
    return Damaged(where, "PNG", image.message);
  }
  const absl::Status size = CheckSize(where, image.width, image.height);
  if (!size.ok()) {
    png_image_free(&image);
    return size;
  }
  Picture picture{.width = image.width, .height = image.height, .rgb = {}};
  picture.rgb.resize(picture.width * picture.height * 3);
  image.format = PNG_FORMAT_RGB;
  const png_color white = {255, 255, 255};
  if (png_image_finish_read(&image, &white, picture.rgb.data(), 0, nullptr) == 0) {
    return Damaged(where, "PNG", image.message);
  }
  return picture;
}

// libjpeg reports an error by a callback that must not return.
struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf escape;
  char text[JMSG_LENGTH_MAX];
};

void EscapeFromJpeg(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->text);
  std::longjmp(errors->escape, 1);
}

// A file that ends early is a warning to libjpeg, which makes up the rest; to us it is an error.
void RefuseCutFiles(j_common_ptr info, int level) {
  if (level >= 0) return;
  const int code = info->err->msg_code;
  if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER) EscapeFromJpeg(info);
}

struct JpegReader {
  jpeg_decompress_struct info = {};
  JpegErrors errors = {};
  bool created = false;
  ~JpegReader() {
    if (created) jpeg_destroy_decompress(&info);
  }
};

// Both return false where libjpeg gave up. No object with a destructor lives in them: a jump
// would skip it.
bool StartJpeg(JpegReader& reader, std::string_view contents) {
  if (setjmp(reader.errors.escape) != 0) return false;
  jpeg_create_decompress(&reader.info);
  reader.created = true;
  jpeg_mem_src(&reader.info, reinterpret_cast<const unsigned char*>(contents.data()),
               static_cast<unsigned long>(contents.size()));
  jpeg_read_header(&reader.info, TRUE);
  reader.info.out_color_space = JCS_RGB;
  return true;
}

bool FinishJpeg(JpegReader& reader, std::uint8_t* rgb) {
  if (setjmp(reader.errors.escape) != 0) return false;
  jpeg_start_decompress(&reader.info);
  while (reader.info.output_scanline < reader.info.output_height) {
    JSAMPROW row = rgb + std::size_t{reader.info.output_scanline} * reader.info.output_width * 3;
    jpeg_read_scanlines(&reader.info, &row, 1);
  }
  jpeg_finish_decompress(&reader.info);
  return true;
}

absl::StatusOr<Picture> DecodeJpeg(std::string_view contents, std::string_view where) {
  JpegReader reader;
  reader.info.err = jpeg_std_error(&reader.errors.manager);
  reader.errors.manager.error_exit = EscapeFromJpeg;
  reader.errors.manager.emit_message = RefuseCutFiles;
  if (!StartJpeg(reader, contents)) return Damaged(where, "JPEG", reader.errors.text);
  SLUICE_RETURN_IF_ERROR(CheckSize(where, reader.info.image_width, reader.info.image_height));
  Picture picture{.width = reader.info.image_width, .height = reader.info.image_height, .rgb = {}};
  picture.rgb.resize(picture.width * picture.height * 3);
  if (!FinishJpeg(reader, picture.rgb.data())) return Damaged(where, "JPEG", reader.errors.text);
  return picture;
}

// A number of a PNM header, with the blanks and comments before it.
std::optional<std::uint64_t> HeaderNumber(std::string_view contents, std::size_t& at) {
  while (at < contents.size()) {
    const char c = contents[at];
    if (c == '#') {
      while (at < contents.size() && contents[at] != '\n') ++at;
    } else if (c != ' ' && c != '\n' && c != '\r' && c != '\t') {
      break;
    } else {
      ++at;
    }
  }
  std::uint64_t value = 0;
  const std::size_t begin = at;
  while (at < contents.size() && contents[at] >= '0' && contents[at] <= '9' && at - begin < 9) {
    value = value * 10 + static_cast<std::uint64_t>(contents[at++] - '0');
  }
  if (at == begin) return std::nullopt;
  return value;
}

absl::StatusOr<Picture> DecodeNetpbm(std::string_view contents, std::string_view where) {
  std::size_t at = 2;
  const std::optional<std::uint64_t> width = HeaderNumber(contents, at);
  const std::optional<std::uint64_t> height = HeaderNumber(contents, at);
  const std::optional<std::uint64_t> maximum = HeaderNumber(contents, at);
  if (!width || !height || !maximum || at >= contents.size()) {
    return Damaged(where, "PPM", "its header is not three numbers");
  }
  ++at;  // One blank ends the header.
  SLUICE_RETURN_IF_ERROR(CheckSize(where, *width, *height));
  if (*maximum != 255) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: got a PPM file with values up to %d, want 255", where, *maximum));
  }
  const std::size_t channels = contents[1] == '6' ? 3 : 1;
  const std::size_t wanted = *width * *height * channels;
  if (contents.size() - at < wanted) {
    return Damaged(
        where, "PPM",
        absl::StrFormat("%d bytes of pixels instead of %d", contents.size() - at, wanted));
  }
  Picture picture{.width = *width, .height = *height, .rgb = {}};
  picture.rgb.resize(picture.width * picture.height * 3);
  for (std::size_t i = 0; i < picture.rgb.size(); ++i) {
    picture.rgb[i] = static_cast<std::uint8_t>(contents[at + (channels == 3 ? i : i / 3)]);
  }
  return picture;
}

}  // namespace

bool LooksLikePicture(std::string_view contents) {
  return contents.substr(0, kPngMagic.size()) == kPngMagic ||
         contents.substr(0, kJpegMagic.size()) == kJpegMagic || LooksLikeNetpbm(contents);
}

absl::StatusOr<Picture> DecodePicture(std::string_view contents, std::string_view where) {
  if (contents.substr(0, kPngMagic.size()) == kPngMagic) return DecodePng(contents, where);
  if (contents.substr(0, kJpegMagic.size()) == kJpegMagic) return DecodeJpeg(contents, where);
  if (LooksLikeNetpbm(contents)) return DecodeNetpbm(contents, where);
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s: got a file of another kind, want a PNG, JPEG, or binary PPM or PGM picture", where));
}

absl::StatusOr<Picture> ReadPicture(const std::filesystem::path& path) {
  SLUICE_ASSIGN_OR_RETURN(const std::string contents, ReadFile(path, kMaxPictureFile));
  return DecodePicture(contents, path.string());
}

absl::Status WritePng(const Picture& picture, const std::filesystem::path& path) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width);
  image.height = static_cast<png_uint_32>(picture.height);
  image.format = PNG_FORMAT_RGB;
  std::string contents(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t size = contents.size();
  if (png_image_write_to_memory(&image, contents.data(), &size, 0, picture.rgb.data(), 0,
                                nullptr) == 0) {
    return absl::InternalError(
        absl::StrFormat("%s: cannot be written as PNG: %s", path.string(), image.message));
  }
  contents.resize(size);
  return WriteFile(path, contents);
}

}  // namespace sluice
