#include "base/files/gzip_file.h"

#include "base/error.h"

namespace composer {

GzipFile::GzipFile(const std::filesystem::path& path) : file_(path) {
  constexpr int with_gzip_header = 15 + 16, fast = 4, memory = 8;
  if (deflateInit2(&stream_, fast, Z_DEFLATED, with_gzip_header, memory, Z_DEFAULT_STRATEGY) !=
      Z_OK)
    throw RunError(path.string() + ": zlib cannot be used");
}

GzipFile::~GzipFile() { deflateEnd(&stream_); }

void GzipFile::commit() {
  put("", Z_FINISH);
  file_.commit();
}

void GzipFile::put(std::string_view text, int flush) {
  stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream_.avail_in = static_cast<uInt>(text.size());
  do {
    stream_.next_out = out_.data();
    stream_.avail_out = static_cast<uInt>(out_.size());
    deflate(&stream_, flush);
    file_.write(std::span<const uint8_t>(out_.data(), out_.size() - stream_.avail_out));
  } while (stream_.avail_out == 0);
}

}  // namespace composer
