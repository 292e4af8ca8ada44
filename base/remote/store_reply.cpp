#include "base/remote/store_reply.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>

#include "base/error.h"
#include "base/remote/remote_path.h"
#include "base/text.h"

namespace composer {
namespace {

constexpr size_t kMostWords = 500;  ///< characters of a store's message

bool digits_only(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

/// The text on one line, cut to kMostWords, for messages.
std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 32 || c == 127) c = ' ';
  if (text.size() > kMostWords) text = text.substr(0, kMostWords) + "...";
  return text;
}

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
  return std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == ':' || static_cast<unsigned char>(c) >= 128;
  });
}

void append_utf8(std::string& text, uint32_t code) {
  constexpr uint32_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
  const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  text += static_cast<char>(kLead[more] | code >> 6 * more);
  for (int i = more; i-- > 0;) text += static_cast<char>(0x80 | (code >> 6 * i & 63));
}

/// Appends the character of a reference such as "#38" or "#x26".
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

  /// Takes the text before `end`, and skips `end`.
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

  /// Skips spaces, declarations and comments.
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

  /// Reads an element from behind its '<' to the end of its end tag.
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

ListingPage read_listing(std::string_view xml) {
  const XmlElement root = parse_xml(xml);
  if (root.name != "ListBucketResult")
    throw RunError("the store answers a listing with <" + one_line(root.name) + ">");
  const bool encoded = root.text_of("EncodingType") == "url";
  const auto key_of = [&](std::string text) {
    if (!encoded) return text;
    std::replace(text.begin(), text.end(), '+', ' ');
    return percent_decoded(text);
  };
  ListingPage page;
  for (const auto& child : root.children) {
    if (child.name == "Contents") {
      const XmlElement* const key = child.child("Key");
      if (key == nullptr || key->text.empty())
        throw RunError("the store's listing has an object without a key");
      std::string etag = child.text_of("ETag");
      if (!etag.empty() && !etag.starts_with('"') && !etag.starts_with("W/"))
        etag = '"' + etag + '"';
      page.objects.push_back({key_of(key->text), read_length(child.text_of("Size")), etag});
    } else if (child.name == "CommonPrefixes") {
      page.folders.push_back(key_of(child.text_of("Prefix")));
    }
  }
  if (root.text_of("IsTruncated") == "true") {
    page.next = root.text_of("NextContinuationToken");
    if (page.next.empty()) throw RunError("the store's listing goes on, but does not say where");
  }
  return page;
}

std::string read_upload_id(std::string_view xml) {
  std::string id = parse_xml(xml).text_of("UploadId");
  if (id.empty()) throw RunError("the store begins an upload without an id");
  return id;
}

StoreProblem read_problem(std::string_view xml) {
  try {
    XmlElement root = parse_xml(xml);
    if (root.name == "ErrorResponse")
      if (const XmlElement* const inner = root.child("Error"); inner != nullptr)
        root = XmlElement(*inner);
    if (root.name != "Error") return {};
    return {one_line(root.text_of("Code")), one_line(root.text_of("Message")),
            one_line(root.text_of("Region"))};
  } catch (const RunError&) {
    return {};
  }
}

ContentRange read_content_range(std::string_view text) {
  const auto refuse = [&] {
    return RunError("Content-Range is '" + one_line(std::string(text)) + "'");
  };
  std::string_view rest = text;
  if (!rest.starts_with("bytes ")) throw refuse();
  rest.remove_prefix(6);
  const size_t dash = rest.find('-'), slash = rest.find('/');
  if (dash == rest.npos || slash == rest.npos || dash > slash) throw refuse();
  const auto first = rest.substr(0, dash), last = rest.substr(dash + 1, slash - dash - 1),
             whole = rest.substr(slash + 1);
  if (!digits_only(first) || !digits_only(last)) throw refuse();
  ContentRange range{read_length(first), read_length(last), std::nullopt};
  if (whole != "*") range.whole = read_length(whole);
  if (range.end < range.begin || range.end == std::numeric_limits<uint64_t>::max() ||
      (range.whole && *range.whole <= range.end))
    throw refuse();
  ++range.end;
  return range;
}

uint64_t read_length(std::string_view text) {
  const auto value = to_number<uint64_t>(text);
  if (!value)
    throw RunError("the store gives '" + one_line(std::string(text)) + "' as a number of bytes");
  return *value;
}

std::optional<std::time_t> read_date(const std::string& text) {
  std::tm parts{};
  const char* const end = strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return timegm(&parts);
}

double read_retry_after(const std::string& text, std::time_t now) {
  if (digits_only(text) && text.size() < 10) return static_cast<double>(std::stol(text));
  const auto date = read_date(text);
  return date && *date > now ? static_cast<double>(*date - now) : 0;
}

}  // namespace composer
