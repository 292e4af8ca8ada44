// The answers of stores: the XML of S3, and headers.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/remote/object_store.h"

namespace composer {

struct XmlElement {
  std::string name;  ///< without a namespace's prefix
  std::string text;  ///< the text outside of children
  std::vector<XmlElement> children;

  /// The first child of this name, or null.
  const XmlElement* child(std::string_view name) const;
  /// The text of the child of this name; empty without one.
  std::string text_of(std::string_view name) const;
};

/// The document's root. RunError when it is not well-formed, nests deeper than 16 elements, or has
/// a document type, whose entities could change its text.
XmlElement parse_xml(std::string_view text);

// The readers below throw RunError when the text is malformed.

/// A page of ListObjectsV2.
struct ListingPage {
  std::vector<ObjectInfo> objects;
  std::vector<std::string> folders;  ///< the common prefixes
  std::string next;                  ///< the token of the next page; empty on the last
};
ListingPage read_listing(std::string_view xml);

/// The id in the answer to InitiateMultipartUpload.
std::string read_upload_id(std::string_view xml);

/// The store's description of an error. All empty when the text is no such description.
struct StoreProblem {
  std::string code, message;
  std::string region;  ///< the bucket's region; empty when the store does not give it
};
StoreProblem read_problem(std::string_view xml);

/// "bytes 0-9/100".
struct ContentRange {
  uint64_t begin = 0, end = 0;    ///< [begin, end)
  std::optional<uint64_t> whole;  ///< the object's size; nothing for '*' (unknown)
};
ContentRange read_content_range(std::string_view text);

/// A length of decimal digits only.
uint64_t read_length(std::string_view text);

/// A date such as "Tue, 15 Nov 1994 08:12:31 GMT"; nothing for any other text.
std::optional<std::time_t> read_date(const std::string& text);

/// The seconds from `now` of Retry-After, a number or a date; 0 for any other text.
double read_retry_after(const std::string& text, std::time_t now);

}  // namespace composer
