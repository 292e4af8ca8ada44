#include "analysis/trace/text_source.h"

#include <zlib.h>

#include <cstring>

#include "base/error.h"

namespace composer {
namespace {

constexpr size_t kPiece = size_t{4} << 20, kLongestValue = size_t{256} << 20;

}  // namespace

void TextSource::Closing::operator()(gzFile_s* file) const { gzclose(file); }

TextSource::TextSource(std::filesystem::path file) : path_(std::move(file)) {
  if (!std::filesystem::is_regular_file(path_))
    throw UserError(path_.string() + ": is no file; a trace is a .json or .json.gz file");
  file_.reset(gzopen(path_.c_str(), "rb"));
  if (!file_) throw UserError(path_.string() + ": cannot be read: " + std::strerror(errno));
  gzbuffer(file_.get(), 256 << 10);
}

bool TextSource::refill(const char* keep) {
  const size_t dropped = keep - buffer_.data();
  filled_ -= dropped;
  if (filled_ > 0) std::memmove(buffer_.data(), keep, filled_);
  offset_ += static_cast<int64_t>(dropped);
  if (filled_ == buffer_.size()) {
    if (buffer_.size() >= kLongestValue)
      throw UserError(path_.string() + ": at byte " + std::to_string(offset_) +
                      ": a value of more than 256 MiB");
    buffer_.resize(buffer_.empty() ? kPiece : 2 * buffer_.size());
  }
  const int read = gzread(file_.get(), buffer_.data() + filled_,
                          static_cast<unsigned>(buffer_.size() - filled_));
  if (read < 0) {
    int number = 0;
    const std::string reason = gzerror(file_.get(), &number);
    throw UserError(path_.string() + ": damaged behind byte " +
                    std::to_string(offset_ + static_cast<int64_t>(filled_)) +
                    " of the uncompressed text: " + reason);
  }
  filled_ += read;
  return read > 0;
}

}  // namespace composer
