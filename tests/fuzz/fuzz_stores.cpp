// What stores answer, and the files that tell how they are reached.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/remote/aws_profile.h"
#include "base/remote/listing.h"
#include "base/remote/remote_path.h"
#include "base/remote/store_reply.h"
#include "tests/fuzz/fuzz_targets.h"

namespace composer::test {
namespace {

/// Whether something could be made of the text.
bool read_as(const std::string& what, const std::string& text) {
  if (what == "listing") {
    const ListingPage page = read_listing(text);
    return !page.objects.empty() || !page.folders.empty();
  }
  if (what == "upload") return !read_upload_id(text).empty();
  if (what == "problem") return !read_problem(text).code.empty();
  if (what == "range") {
    const ContentRange range = read_content_range(text);
    if (range.begin >= range.end || (range.whole && range.end > *range.whole))
      throw std::logic_error("a range of nothing");
    return true;
  }
  if (what == "length") return read_length(text) + 1 != 0;
  if (what == "date") return read_date(text).has_value();
  if (what == "retry") return read_retry_after(text, 0) > 0;
  if (what == "profile") return !parse_aws_file(text).empty();
  if (what == "manifest") {
    const auto names = names_in_manifest(text, RemotePath("s3://bucket/folder/files.txt"));
    for (const auto& name : names)
      if (name.empty() || name.front() == '/' || ("/" + name + "/").find("/../") != name.npos)
        throw std::logic_error("a name outside of the folder");
    return !names.empty();
  }
  if (what != "path") return false;
  const RemotePath path(text);
  if (path.text().find('\n') != std::string::npos) throw std::logic_error("a path of two lines");
  return path.with_key(path.key()) == path && !path.text().empty();
}

}  // namespace

bool fuzz_store_reply(std::span<const uint8_t> input) {
  const std::string all(input.begin(), input.end());
  const size_t end = std::min(all.find('\n'), all.size());
  try {
    return read_as(all.substr(0, end), all.substr(std::min(end + 1, all.size())));
  } catch (const RunError&) {
  } catch (const UserError&) {
  }
  return false;
}

}  // namespace composer::test
