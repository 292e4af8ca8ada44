// What stores answer: the XML of S3, and headers.
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
  std::string text;  ///< all of it that is not in a child
  std::vector<XmlElement> children;

  /// Null where there is none of this name.
  const XmlElement* child(std::string_view name) const;
  /// The child's text; empty where there is none.
  std::string text_of(std::string_view name) const;
};

/// The document's root. RunError where it is not well-formed, nests deeper than 16 elements, or has
/// a document type (whose entities could make anything of it).
XmlElement parse_xml(std::string_view text);

/// All readers below throw RunError where the text is not what it should be.

/// A page of ListObjectsV2.
struct ListingPage {
  std::vector<ObjectInfo> objects;
  std::vector<std::string> folders;  ///< the common prefixes
  std::string next;                  ///< the token of the next page; empty on the last
};
ListingPage read_listing(std::string_view xml);

/// Of InitiateMultipartUpload.
std::string read_upload_id(std::string_view xml);

/// The store's own words about what went wrong. All empty where the text is something else.
struct StoreProblem {
  std::string code, message;
  std::string region;  ///< where the bucket is, as far as the store says it
};
StoreProblem read_problem(std::string_view xml);

/// "bytes 0-9/100".
struct ContentRange {
  uint64_t begin = 0, end = 0;    ///< [begin, end)
  std::optional<uint64_t> whole;  ///< nothing where the server does not know ('*')
};
ContentRange read_content_range(std::string_view text);

/// Decimal digits only.
uint64_t read_length(std::string_view text);

/// "Tue, 15 Nov 1994 08:12:31 GMT". Nothing where it is no such date.
std::optional<std::time_t> read_date(const std::string& text);

/// Seconds from `now` on, of Retry-After: a number or a date; 0 where it is neither.
double read_retry_after(const std::string& text, std::time_t now);

}  // namespace composer
