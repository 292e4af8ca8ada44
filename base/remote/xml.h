// XML as stores write it: elements and text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

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

}  // namespace composer
