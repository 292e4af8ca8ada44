#include "base/files/zip_archive.h"

namespace composer {
namespace {

constexpr uint32_t local_signature = 0x04034b50, directory_signature = 0x02014b50,
                   end_signature = 0x06054b50, end64_signature = 0x06064b50,
                   locator64_signature = 0x07064b50;
constexpr size_t end_size = 22, locator64_size = 20;
constexpr uint32_t in_zip64 = 0xffffffff;

void expect(ByteReader& reader, uint32_t signature) {
  if (reader.number<uint32_t>() != signature) throw FormatError("the zip archive is damaged");
}

/// The offset of the end record: the last 22 bytes, or earlier when the archive has a comment.
size_t find_end(std::span<const uint8_t> bytes) {
  if (bytes.size() >= end_size) {
    const size_t last = bytes.size() - end_size, first = last > 0xffff ? last - 0xffff : 0;
    for (size_t position = last + 1; position-- > first;)
      if (ByteReader(bytes, position).number<uint32_t>() == end_signature) return position;
  }
  throw FormatError("cut off: the zip archive has no directory at its end");
}

struct Directory {
  uint64_t count, size, offset;
};

Directory read_end(std::span<const uint8_t> bytes) {
  const size_t position = find_end(bytes);
  ByteReader end(bytes, position + 10);
  Directory directory{};
  directory.count = end.number<uint16_t>();
  directory.size = end.number<uint32_t>();
  directory.offset = end.number<uint32_t>();
  const bool is_zip64 =
      directory.count == 0xffff || directory.size == in_zip64 || directory.offset == in_zip64;
  if (!is_zip64 || position < locator64_size) return directory;

  ByteReader locator(bytes, position - locator64_size);
  if (locator.number<uint32_t>() != locator64_signature) return directory;
  locator.take(4);
  ByteReader end64(bytes, locator.number<uint64_t>());
  expect(end64, end64_signature);
  end64.take(28);
  directory.count = end64.number<uint64_t>();
  directory.size = end64.number<uint64_t>();
  directory.offset = end64.number<uint64_t>();
  return directory;
}

}  // namespace

ZipArchive::ZipArchive(std::span<const uint8_t> bytes) : bytes_(bytes) {
  const Directory directory = read_end(bytes);
  ByteReader reader(bytes, directory.offset);
  read_directory(ByteReader(reader.take(directory.size)), directory.count);
}

void ZipArchive::read_directory(ByteReader directory, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    expect(directory, directory_signature);
    directory.take(4);
    Entry entry{};
    entry.flags = directory.number<uint16_t>();
    entry.method = directory.number<uint16_t>();
    directory.take(8);
    entry.stored_size = directory.number<uint32_t>();
    entry.size = directory.number<uint32_t>();
    const auto name_size = directory.number<uint16_t>();
    const auto extra_size = directory.number<uint16_t>();
    const auto comment_size = directory.number<uint16_t>();
    directory.take(8);
    entry.header = directory.number<uint32_t>();
    const auto name = directory.text(name_size);

    ByteReader extras(directory.take(extra_size));
    for (size_t left = extra_size; left >= 4;) {
      const auto id = extras.number<uint16_t>();
      const auto size = extras.number<uint16_t>();
      ByteReader extra(extras.take(size));
      left -= 4 + size_t{size};
      if (id != 1) continue;
      for (uint64_t* field : {&entry.size, &entry.stored_size, &entry.header})
        if (*field == in_zip64) *field = extra.number<uint64_t>();
    }
    directory.take(comment_size);
    entries_.insert_or_assign(std::string(name), entry);
  }
}

std::optional<std::span<const uint8_t>> ZipArchive::find(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return std::nullopt;
  const Entry& entry = found->second;
  if (entry.method != 0 || (entry.flags & 1) != 0 || entry.size != entry.stored_size)
    throw FormatError("the zip archive is compressed or encrypted; PyTorch's never are");
  ByteReader reader(bytes_, entry.header);
  expect(reader, local_signature);
  reader.take(22);
  const auto name_size = reader.number<uint16_t>();
  const auto extra_size = reader.number<uint16_t>();
  reader.take(uint64_t{name_size} + extra_size);
  return reader.take(entry.size);
}

std::optional<std::string> ZipArchive::find_name(std::string_view ending) const {
  for (const auto& [name, entry] : entries_)
    if (name.ends_with(ending)) return name;
  return std::nullopt;
}

}  // namespace composer
