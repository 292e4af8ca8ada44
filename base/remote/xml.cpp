#include "base/remote/xml.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>

#include "base/error.h"

namespace composer {
namespace {

constexpr int kDeepest = 16;
constexpr std::string_view kSpaces = " \t\r\n";

struct Entity {
  std::string_view name;
  char character;
};
constexpr Entity kEntities[] = {
    {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};

[[noreturn]] void refuse(const std::string& what) {
  throw RunError("the store's XML is damaged: " + what);
}

bool is_name(std::string_view name) {
  if (name.empty() || std::string_view("-.0123456789").find(name[0]) != name.npos) return false;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '-' || c == '.' || c == ':' || byte >= 128;
    if (!fits) return false;
  }
  return true;
}

void append_utf8(std::string& text, uint32_t code) {
  const auto byte = [&](uint32_t value) { text += static_cast<char>(value); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0 | code >> 6);
    byte(0x80 | (code & 63));
  } else if (code < 0x10000) {
    byte(0xE0 | code >> 12);
    byte(0x80 | (code >> 6 & 63));
    byte(0x80 | (code & 63));
  } else {
    byte(0xF0 | code >> 18);
    byte(0x80 | (code >> 12 & 63));
    byte(0x80 | (code >> 6 & 63));
    byte(0x80 | (code & 63));
  }
}

/// The character of "#38" or "#x26".
void append_character(std::string& text, std::string_view reference) {
  const bool hex = reference.size() > 1 && reference[1] == 'x';
  const auto digits = reference.substr(hex ? 2 : 1);
  const char* const end = digits.data() + digits.size();
  uint32_t code = 0;
  const auto [rest, error] = std::from_chars(digits.data(), end, code, hex ? 16 : 10);
  if (error != std::errc{} || rest != end || digits.size() > 8 || code == 0 || code > 0x10FFFF ||
      (code >= 0xD800 && code < 0xE000))
    refuse("a character reference");
  append_utf8(text, code);
}

class Reader {
 public:
  explicit Reader(std::string_view text) : left_(text) {}

  XmlElement document() {
    if (left_.starts_with("\xEF\xBB\xBF")) left_.remove_prefix(3);
    skip_between();
    XmlElement root;
    expect("<");
    element(root, 1);
    skip_between();
    if (!left_.empty()) refuse("something stands behind its end");
    return root;
  }

 private:
  void expect(std::string_view what) {
    if (!left_.starts_with(what)) refuse("'" + std::string(what) + "' is missing");
    left_.remove_prefix(what.size());
  }

  /// What stands before `end`, which is passed.
  std::string_view until(std::string_view end) {
    const size_t at = left_.find(end);
    if (at == left_.npos) refuse("it ends too early");
    const auto before = left_.substr(0, at);
    left_.remove_prefix(at + end.size());
    return before;
  }

  void skip_spaces() {
    left_.remove_prefix(std::min(left_.find_first_not_of(kSpaces), left_.size()));
  }

  /// Declarations and comments.
  void skip_between() {
    for (;;) {
      skip_spaces();
      if (left_.starts_with("<?")) {
        until("?>");
      } else if (left_.starts_with("<!--")) {
        until("-->");
      } else {
        return;
      }
    }
  }

  std::string_view name() {
    const size_t end = std::min(left_.find_first_of(" \t\r\n/>=<"), left_.size());
    const auto result = left_.substr(0, end);
    if (!is_name(result)) refuse("a name");
    left_.remove_prefix(end);
    return result;
  }

  void add_text(std::string& to, std::string_view text) {
    while (!text.empty()) {
      const size_t at = std::min(text.find('&'), text.size());
      to += text.substr(0, at);
      text.remove_prefix(at);
      if (text.empty()) return;
      const size_t end = text.find(';');
      if (end == text.npos || end > 12) refuse("an entity");
      const auto entity = text.substr(1, end - 1);
      text.remove_prefix(end + 1);
      const auto* const known = std::ranges::find(kEntities, entity, &Entity::name);
      if (known != std::end(kEntities))
        to += known->character;
      else if (entity.starts_with('#'))
        append_character(to, entity);
      else
        refuse("an entity");
    }
  }

  /// From behind '<' to behind the end tag.
  void element(XmlElement& into, int depth) {
    if (depth > kDeepest) refuse("it nests too deep");
    const auto full_name = name();
    const size_t colon = full_name.rfind(':');
    into.name = full_name.substr(colon == full_name.npos ? 0 : colon + 1);
    for (;;) {
      skip_spaces();
      if (left_.starts_with("/>")) {
        left_.remove_prefix(2);
        return;
      }
      if (left_.starts_with(">")) break;
      name();
      skip_spaces();
      expect("=");
      skip_spaces();
      const auto quote = left_.substr(0, 1);
      if (quote != "\"" && quote != "'") refuse("an attribute");
      left_.remove_prefix(1);
      until(quote);
    }
    expect(">");
    for (;;) {
      const size_t at = left_.find('<');
      if (at == left_.npos) refuse("it ends too early");
      add_text(into.text, left_.substr(0, at));
      left_.remove_prefix(at);
      if (left_.starts_with("</")) {
        left_.remove_prefix(2);
        if (name() != full_name) refuse("an end tag that ends nothing");
        skip_spaces();
        expect(">");
        return;
      }
      if (left_.starts_with("<!--")) {
        until("-->");
      } else if (left_.starts_with("<![CDATA[")) {
        left_.remove_prefix(9);
        into.text += until("]]>");
      } else {
        expect("<");
        element(into.children.emplace_back(), depth + 1);
      }
    }
  }

  std::string_view left_;
};

}  // namespace

const XmlElement* XmlElement::child(std::string_view child_name) const {
  for (const auto& each : children)
    if (each.name == child_name) return &each;
  return nullptr;
}

std::string XmlElement::text_of(std::string_view child_name) const {
  const XmlElement* const found = child(child_name);
  return found == nullptr ? "" : found->text;
}

XmlElement parse_xml(std::string_view text) { return Reader(text).document(); }

}  // namespace composer
