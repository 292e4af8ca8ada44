#include "base/remote/store_reply.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/remote/remote_path.h"
#include "base/remote/xml.h"
#include "base/text.h"

namespace composer {
namespace {

constexpr size_t kMostWords = 500;  ///< of a store's message

bool digits_only(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// One line, not too long, for messages.
std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 32 || c == 127) c = ' ';
  if (text.size() > kMostWords) text = text.substr(0, kMostWords) + "...";
  return text;
}

}  // namespace

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
