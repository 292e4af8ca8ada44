#include "data/beton/beton.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/remote/cache_folder.h"
#include "data/beton/fields.h"
#include "data/jpeg/header.h"

namespace composer {
namespace {

struct Header {
  uint16_t version = 0, fields = 0;
  uint32_t page_size = 0;
  uint64_t samples = 0, table = 0;
};

template <class T>
T load(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

Header read_header(std::span<const uint8_t> file) {
  if (file.size() < kBetonHeaderBytes)
    throw RunError("no .beton file: it has only " + std::to_string(file.size()) + " bytes");
  const uint8_t* at = file.data();
  const Header header{load<uint16_t>(at), load<uint16_t>(at + 2), load<uint32_t>(at + 4),
                      load<uint64_t>(at + 8), load<uint64_t>(at + 16)};
  if (header.version != 2)
    throw RunError("no .beton file of version 2, as FFCV writes them: it begins with " +
                   std::to_string(header.version));
  if (!std::has_single_bit(header.page_size))
    throw RunError("no .beton file: its page size, " + std::to_string(header.page_size) +
                   ", is no power of two");
  if (header.table == 0)
    throw RunError("unfinished: the program that wrote it did not come to its end");
  return header;
}

/// Throws RunError unless header, fields, rows and allocation table follow each other in the file.
void check_extent(const Header& header, const BetonLayout& layout, uint64_t file_bytes) {
  const uint64_t rows = kBetonHeaderBytes + header.fields * kBetonDescriptorBytes;
  if (header.table > file_bytes)
    throw RunError("cut off: its allocation table begins at byte " + std::to_string(header.table) +
                   ", the file has " + std::to_string(file_bytes));
  if (header.table < rows || header.samples > (header.table - rows) / layout.row_bytes)
    throw RunError("damaged: " + std::to_string(header.samples) + " rows of " +
                   std::to_string(layout.row_bytes) +
                   " bytes do not fit before its allocation table at byte " +
                   std::to_string(header.table));
  const uint64_t table_bytes = file_bytes - header.table;
  const uint64_t wanted = header.samples * layout.regions * kBetonEntryBytes;
  if (table_bytes % kBetonEntryBytes != 0 || table_bytes < wanted)
    throw RunError("cut off or damaged: its allocation table has " + std::to_string(table_bytes) +
                   " bytes, " + std::to_string(header.samples) + " samples with " +
                   std::to_string(layout.regions) + " regions each need " + std::to_string(wanted));
}

/// Finds the size of a region of data by its offset; only the allocation table has the sizes. The
/// table stays in the file. FFCV's writers fill one page after the other, so a page's entries stand
/// together and ascend: one piece of the table is kept for each page. A table in any other order
/// costs 24 bytes an entry and a sort.
class BetonRegions {
 public:
  /// table: entries of 24 bytes (sample, begin, size); must outlive this. page_shift: log2 of the
  /// page size.
  BetonRegions(std::span<const uint8_t> table, unsigned page_shift);

  /// Size of the region that begins at this offset of the file; empty without such a region. Among
  /// several it is the largest one's, since empty regions share their offset with the next.
  std::optional<uint64_t> size_at(uint64_t begin) const;

 private:
  struct Piece {  // entries first..last of the table; their offsets ascend
    uint64_t first, last;
  };

  uint64_t begin_of(uint64_t entry) const { return number(entry, 8); }
  uint64_t size_of(uint64_t entry) const { return number(entry, 16); }
  uint64_t number(uint64_t entry, uint64_t offset) const {
    return load<uint64_t>(table_.data() + entry * kBetonEntryBytes + offset);
  }
  void sort_pieces();

  std::span<const uint8_t> table_;
  std::vector<Piece> pieces_;
};

BetonRegions::BetonRegions(std::span<const uint8_t> table, unsigned page_shift) : table_(table) {
  const uint64_t entries = table.size() / kBetonEntryBytes;
  uint64_t before = 0;
  for (uint64_t i = 0; i < entries; ++i) {
    const uint64_t begin = begin_of(i);
    const bool same_page = (begin ^ before) >> page_shift == 0;
    const bool ascends = begin > before || (begin == before && i > 0 && size_of(i - 1) == 0);
    const bool goes_on = i > 0 && same_page && ascends;
    if (goes_on)
      pieces_.back().last = i;
    else
      pieces_.push_back({i, i});
    before = begin;
  }
  sort_pieces();
  for (size_t i = 1; i < pieces_.size(); ++i) {
    if (begin_of(pieces_[i - 1].last) <= begin_of(pieces_[i].first)) continue;
    pieces_.clear();
    for (uint64_t entry = 0; entry < entries; ++entry) pieces_.push_back({entry, entry});
    sort_pieces();
    break;
  }
  pieces_.shrink_to_fit();
}

std::optional<uint64_t> BetonRegions::size_at(uint64_t begin) const {
  const auto after = std::upper_bound(
      pieces_.begin(), pieces_.end(), begin,
      [&](uint64_t wanted, const Piece& piece) { return wanted < begin_of(piece.first); });
  if (after == pieces_.begin()) return std::nullopt;
  uint64_t low = std::prev(after)->first, high = std::prev(after)->last;
  while (low < high) {
    const uint64_t middle = high - (high - low) / 2;
    if (begin_of(middle) <= begin)
      low = middle;
    else
      high = middle - 1;
  }
  if (begin_of(low) != begin) return std::nullopt;
  return size_of(low);
}

void BetonRegions::sort_pieces() {
  const auto key = [&](const Piece& piece) {
    return std::tuple(begin_of(piece.first), begin_of(piece.last), size_of(piece.last));
  };
  std::sort(pieces_.begin(), pieces_.end(),
            [&](const Piece& a, const Piece& b) { return key(a) < key(b); });
}

}  // namespace

struct BetonFile::State {
  explicit State(const std::filesystem::path& file_path) : path(file_path), file(file_path) {}
  explicit State(std::shared_ptr<RangeCache> cache)
      : path(cache->name()), remote(std::move(cache)), file(remote->file()) {}

  /// A part of the file, read in the mapping from now on. A remote file's part is fetched and
  /// kept.
  std::span<const uint8_t> part(uint64_t begin, uint64_t bytes) const {
    if (remote != nullptr) remote->pin(begin, begin + bytes);
    return file.bytes().subspan(begin, bytes);
  }

  const uint8_t* value(int64_t row, size_t field) const {
    if (row < 0 || row >= samples)
      throw RunError("there is no row " + std::to_string(row) + ", only " +
                     std::to_string(samples));
    if (field >= layout.fields.size()) throw RunError("there is no field " + std::to_string(field));
    return rows.data() + static_cast<uint64_t>(row) * layout.row_bytes +
           layout.fields[field].offset;
  }

  /// The number at this address. Throws RunError when its bytes are lost.
  template <class T>
  T number(const uint8_t* at) const {
    const auto value = load<T>(at);
    if (file.lost({at, sizeof value})) file.check({at, sizeof value});
    return value;
  }

  /// Throws for a row or table with impossible values: its bytes are lost, or damaged.
  [[noreturn]] void refuse(std::span<const uint8_t> part, const std::string& reason) const {
    file.check(part);
    throw RunError(reason);
  }

  const uint8_t* value(int64_t row, size_t field, BetonType type, const char* what) const {
    const uint8_t* at = value(row, field);
    if (layout.fields[field].type != type)
      throw RunError("field '" + layout.fields[field].name + "' holds no " + what);
    return at;
  }

  /// A region of the file, which must lie between rows and allocation table.
  std::span<const uint8_t> region(uint64_t begin, uint64_t size) const {
    if (size == 0) return {};
    if (begin < data_begin || begin > data_end || size > data_end - begin)
      throw RunError("its data, " + std::to_string(size) + " bytes at byte " +
                     std::to_string(begin) + ", lie outside the pages, bytes " +
                     std::to_string(data_begin) + " to " + std::to_string(data_end));
    return file.bytes().subspan(begin, size);
  }

  std::filesystem::path path;
  std::shared_ptr<RangeCache> remote;  ///< null for a local file
  MappedFile file;
  uint64_t page_size = 0;
  unsigned page_shift = 0;
  int64_t samples = 0, regions = 0;
  uint64_t data_begin = 0, data_end = 0;
  std::span<const uint8_t> rows, table;
  BetonLayout layout;
  std::optional<BetonRegions> sizes;
};

BetonFile::BetonFile(const std::filesystem::path& path, const RemoteOptions& remote)
    : state_(is_remote(path.string())
                 ? std::make_unique<State>(open_remote(RemotePath(path.string()), remote))
                 : std::make_unique<State>(path)) {
  open();
}

BetonFile::BetonFile(std::shared_ptr<RangeCache> remote)
    : state_(std::make_unique<State>(std::move(remote))) {
  open();
}

void BetonFile::open() {
  State& s = *state_;
  const auto bytes = s.file.bytes();
  try {
    const Header header = read_header(s.part(0, std::min(bytes.size(), kBetonHeaderBytes)));
    const uint64_t rows = kBetonHeaderBytes + header.fields * kBetonDescriptorBytes;
    if (header.fields == 0) throw RunError("damaged: it has no fields");
    if (rows > bytes.size())
      throw RunError("cut off or damaged: the descriptions of its " +
                     std::to_string(header.fields) + " fields end at byte " + std::to_string(rows) +
                     ", it has " + std::to_string(bytes.size()));
    s.layout = read_beton_fields(s.part(kBetonHeaderBytes, rows - kBetonHeaderBytes));
    check_extent(header, s.layout, bytes.size());
    s.page_size = header.page_size;
    s.page_shift = static_cast<unsigned>(std::countr_zero(header.page_size));
    s.samples = static_cast<int64_t>(header.samples);
    s.rows = s.part(rows, header.samples * s.layout.row_bytes);
    s.data_begin = rows + s.rows.size();
    s.data_end = header.table;
    s.regions = static_cast<int64_t>((bytes.size() - header.table) / kBetonEntryBytes);
    s.table = s.part(header.table, bytes.size() - header.table);
    s.sizes.emplace(s.table, s.page_shift);
    s.file.check(bytes);
  } catch (const RemoteError&) {
    throw;
  } catch (const RunError& error) {
    throw UserError(s.path.string() + ": " + error.what());
  }
}

BetonFile::~BetonFile() = default;

const std::filesystem::path& BetonFile::path() const { return state_->path; }
uint64_t BetonFile::file_bytes() const { return state_->file.bytes().size(); }
uint64_t BetonFile::page_size() const { return state_->page_size; }
int64_t BetonFile::samples() const { return state_->samples; }
int64_t BetonFile::regions() const { return state_->regions; }
const std::vector<BetonField>& BetonFile::fields() const { return state_->layout.fields; }

std::optional<size_t> BetonFile::find_field(BetonType type, const std::string& name) const {
  const auto& all = fields();
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].type == type && (name.empty() || all[i].name == name)) return i;
  return std::nullopt;
}

BetonImage BetonFile::image(int64_t row, size_t field) const {
  const uint8_t* at = state_->value(row, field, BetonType::image, "image");
  const std::span<const uint8_t> in_row(at, 13);
  const auto mode = state_->number<uint8_t>(at);
  BetonImage image;
  image.size = {load<uint16_t>(at + 3), load<uint16_t>(at + 1)};
  const auto begin = state_->number<uint64_t>(at + 5);
  if (mode > 1)
    throw RunError("its mode is " + std::to_string(mode) + ", neither 0 (JPEG) nor 1 (pixels)");
  const std::string size = size_text(image.size);
  const int64_t pixels = image.size.height * image.size.width;
  if (pixels == 0) state_->refuse(in_row, "its image has no pixels (" + size + ")");
  if (pixels > kMaxPixels) throw RunError("its image is too large (" + size + ")");
  image.jpeg = mode == 0;
  uint64_t bytes = static_cast<uint64_t>(pixels) * 3;
  if (image.jpeg) {
    const auto listed = state_->sizes->size_at(begin);
    if (!listed || *listed == 0 || state_->file.lost(state_->table))
      state_->refuse(state_->table,
                     "the allocation table has no JPEG at byte " + std::to_string(begin));
    bytes = *listed;
  }
  image.bytes = state_->region(begin, bytes);
  return image;
}

int64_t BetonFile::integer(int64_t row, size_t field) const {
  return state_->number<int64_t>(state_->value(row, field, BetonType::integer, "integer"));
}

double BetonFile::real(int64_t row, size_t field) const {
  return state_->number<double>(state_->value(row, field, BetonType::real, "real number"));
}

std::span<const uint8_t> BetonFile::bytes(int64_t row, size_t field) const {
  const uint8_t* at = state_->value(row, field);
  const auto begin = state_->number<uint64_t>(at);
  switch (fields()[field].type) {
    case BetonType::array:
    case BetonType::tensor:
      return state_->region(begin, state_->layout.array_bytes[field]);
    case BetonType::bytes:
      return state_->region(begin, load<uint64_t>(at + 8));
    case BetonType::json: {
      const auto text = state_->region(begin, load<uint64_t>(at + 8));
      return !text.empty() && text.back() == 0 ? text.first(text.size() - 1) : text;
    }
    default:
      throw RunError("field '" + fields()[field].name + "' holds no bytes");
  }
}

void BetonFile::read(std::span<const uint8_t> stored, std::vector<uint8_t>& memory) const {
  memory.resize(stored.size());
  if (stored.empty()) return;
  const auto* const mapped = state_->file.bytes().data();
  state_->remote->read(static_cast<uint64_t>(stored.data() - mapped), memory, mapped);
  if (state_->file.lost(stored))
    throw RemoteError(state_->remote->file().string() +
                      ": the file was cut off, or its disk failed");
}

const MappedFile& BetonFile::mapping() const { return state_->file; }
RangeCache* BetonFile::remote() const { return state_->remote.get(); }

uint64_t BetonFile::page(int64_t row, size_t field) const {
  const uint8_t* at = state_->value(row, field);
  uint64_t begin = 0;
  switch (fields()[field].type) {
    case BetonType::real:
    case BetonType::integer:
    case BetonType::custom:
      begin = static_cast<uint64_t>(at - state_->file.bytes().data());
      break;
    case BetonType::image:
      begin = load<uint64_t>(at + 5);
      break;
    default:
      begin = load<uint64_t>(at);
  }
  if (begin > state_->data_end)
    throw RunError("its data, at byte " + std::to_string(begin) + ", lie outside the file");
  return begin >> state_->page_shift;
}

ImageView decode_whole(const BetonImage& image, Dct dct, JpegDecoder& decoder,
                       std::string* warnings) {
  if (!image.jpeg)
    return {image.bytes.data(), image.size.height, image.size.width, 3, image.size.width * 3};
  const ImageSize stored = read_jpeg_header(image.bytes).size;
  if (stored != image.size)
    throw RunError("the JPEG is " + size_text(stored) + ", the file says " + size_text(image.size));
  const JpegRequest request{{0, 0, stored.height, stored.width}, 1, dct};
  return decoder.decode(image.bytes, request, {}, nullptr, warnings).pixels;
}

}  // namespace composer
