// base/markup.h
//
// Text within HTML and XML.

#ifndef SLUICE_BASE_MARKUP_H_
#define SLUICE_BASE_MARKUP_H_

#include <string>
#include <string_view>

namespace sluice {

// The text as it stands in an element or a quoted attribute: what has a meaning there is escaped,
// control characters, which XML does not allow, become blanks, and what is no UTF-8 or no character
// of XML becomes '?'.
std::string EscapeMarkup(std::string_view text);

}  // namespace sluice

#endif  // SLUICE_BASE_MARKUP_H_
