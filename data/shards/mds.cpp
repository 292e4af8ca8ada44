#include "data/shards/mds.h"

#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/files/byte_reader.h"
#include "base/log.h"
#include "base/params/foreign_json.h"
#include "base/remote/object_store.h"
#include "base/remote/remote_path.h"
#include "base/several_threads.h"
#include "base/text.h"
#include "data/files/file_lock.h"
#include "data/samples/sample_table.h"
#include "data/samples/target_rows.h"
#include "data/shards/zstd_file.h"

namespace composer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Column {
  std::string name, encoding;
  std::optional<uint64_t> bytes;  ///< bytes of a value; nullopt where each sample has its own size
};

struct ShardFile {
  std::string name;  ///< below the folder
  uint64_t bytes = 0;
  FileHashes hashes{};
};

/// The entry of a shard in index.json.
struct Shard {
  std::vector<Column> columns;
  uint64_t samples = 0;
  ShardFile raw;
  std::optional<ShardFile> packed;
  std::string compression;
};

/// The numpy type of an encoding; MosaicML's "int" is "int64".
std::string type_of(const std::string& encoding) { return encoding == "int" ? "int64" : encoding; }

bool is_integer(const std::string& encoding) {
  const bool named = encoding.starts_with("int") || encoding.starts_with("uint");
  return named && bytes_of_number(type_of(encoding)) > 0;
}

bool is_image(const Column& column) {
  return column.encoding == "jpeg" || column.encoding == "png" || column.encoding == "pil";
}
bool is_class(const Column& column) {
  return is_integer(column.encoding) || column.encoding == "str_int";
}

std::string described(const std::vector<Column>& columns) {
  std::vector<std::string> all;
  for (const auto& column : columns) all.push_back(column.name + " (" + column.encoding + ")");
  return first_few(std::move(all));
}

/// Throws FormatError for a name that leads out of the folder.
ShardFile file_of(const json& data) {
  ShardFile file{data.at("basename"), data.at("bytes")};
  if (data.contains("hashes") && data["hashes"].is_object())
    file.hashes = data["hashes"].get<FileHashes>();
  const fs::path path = fs::path(file.name).lexically_normal();
  if (path.empty() || path.is_absolute() || *path.begin() == ".." || is_remote(file.name))
    throw FormatError("a shard lies outside the folder: " + file.name);
  return file;
}

Shard shard_of(const json& data) {
  if (data.at("format") != "mds")
    throw FormatError("has shards of the format " + shown_value(data["format"]) +
                      "; only mds is read");
  if (data.at("version") != 2)
    throw FormatError("has shards of version " + shown_value(data["version"]));
  Shard shard;
  const auto names = data.at("column_names").get<std::vector<std::string>>();
  const auto encodings = data.at("column_encodings").get<std::vector<std::string>>();
  const auto& sizes = data.at("column_sizes");
  if (encodings.size() != names.size() || !sizes.is_array() || sizes.size() != names.size())
    throw FormatError("a shard's column_names, column_encodings and column_sizes differ in length");
  for (size_t i = 0; i < names.size(); ++i) {
    Column column{names[i], encodings[i], std::nullopt};
    if (!sizes[i].is_null()) column.bytes = sizes[i].get<uint64_t>();
    shard.columns.push_back(std::move(column));
  }
  shard.samples = data.at("samples");
  shard.raw = file_of(data.at("raw_data"));
  if (data.contains("zip_data") && !data["zip_data"].is_null())
    shard.packed = file_of(data["zip_data"]);
  if (data.contains("compression") && data["compression"].is_string())
    shard.compression = data["compression"];
  return shard;
}

std::vector<Shard> read_index(const std::string& path, const RemoteOptions& remote) {
  const std::string file = shown_path(path);
  try {
    const PartFile part(path, remote);
    std::vector<uint8_t> memory;
    const auto bytes = part.read(0, part.bytes(), memory);
    const json index = part.use(bytes, [&] { return json::parse(bytes); });
    if (index.at("version") != 2)
      throw FormatError("is of version " + shown_value(index["version"]) + "; only 2 is read");
    std::vector<Shard> shards;
    for (const auto& shard : index.at("shards")) shards.push_back(shard_of(shard));
    if (shards.empty()) throw FormatError("lists no shards");
    return shards;
  } catch (const json::exception& error) {
    throw UserError(file + ": is no index of MDS shards: " + error.what());
  } catch (const FormatError& error) {
    throw UserError(file + ": " + error.what());
  }
}

/// The name of the wanted column. Throws UserError if no column, or more than one, can be it.
std::string column_for(const char* key, const std::string& wanted,
                       const std::vector<Column>& columns, bool (*fits)(const Column&),
                       std::initializer_list<const char*> usual) {
  const auto fail = [&](const std::string& problem, const std::string& hint = "") {
    return UserError(std::string(key) + ": " + problem + "; the columns are " + described(columns) +
                     hint);
  };
  std::vector<std::string> names, fitting;
  for (const auto& column : columns) {
    if (column.name == wanted) return wanted;
    names.push_back(column.name);
    if (fits(column)) fitting.push_back(column.name);
  }
  if (wanted != "auto")
    throw fail("there is no column '" + wanted + "'", nearest_name(wanted, names));
  for (const char* name : usual)
    if (std::find(fitting.begin(), fitting.end(), name) != fitting.end()) return name;
  if (fitting.size() != 1)
    throw fail(fitting.empty() ? "no column can be it"
                               : "more than one column can be it: " + first_few(fitting));
  return fitting[0];
}

const Column& column_named(const std::string& name, const std::vector<Column>& columns) {
  for (const auto& column : columns)
    if (column.name == name) return column;
  throw FormatError("lacks the column " + name);
}

/// The values of the columns in a sample's bytes. Throws FormatError if the bytes are too few.
std::vector<std::span<const uint8_t>> values_of(const std::vector<Column>& columns,
                                                std::span<const uint8_t> sample) {
  ByteReader reader(sample);
  std::vector<uint64_t> sizes;
  for (const auto& column : columns)
    sizes.push_back(column.bytes ? *column.bytes : reader.number<uint32_t>());
  std::vector<std::span<const uint8_t>> values;
  for (const uint64_t size : sizes) values.push_back(reader.take(size));
  return values;
}

int32_t class_of(const Column& column, std::span<const uint8_t> bytes) {
  uint64_t value = 0;
  if (column.encoding == "str_int") {
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    const auto [end, error] = std::from_chars(text, text + bytes.size(), value);
    if (error != std::errc() || end != text + bytes.size())
      throw FormatError("its class is no number");
  } else {
    if (bytes.size() != bytes_of_number(type_of(column.encoding)))
      throw FormatError("its class is no number");
    std::memcpy(&value, bytes.data(), bytes.size());
  }
  // The highest bit is the sign of a signed class of any width.
  if (value > std::numeric_limits<int32_t>::max() ||
      (!column.encoding.starts_with('u') && column.encoding != "str_int" &&
       (value >> (8 * bytes.size() - 1) & 1) != 0))
    throw FormatError("its class is negative or too large");
  return static_cast<int32_t>(value);
}

/// The type of an ndarray without a type in its encoding, by the code of MosaicML's streaming.
std::string type_of_array(uint8_t code) {
  static const std::map<uint8_t, std::string> types{{8, "uint8"},  {9, "int8"},     {16, "uint16"},
                                                    {17, "int16"}, {18, "float16"}, {32, "uint32"},
                                                    {33, "int32"}, {34, "float32"}, {64, "uint64"},
                                                    {65, "int64"}, {66, "float64"}};
  const auto found = types.find(code);
  if (found == types.end()) throw FormatError("an array of no known type");
  return found->second;
}

/// The numbers of an array with the encoding "ndarray", "ndarray:TYPE" or "ndarray:TYPE:SHAPE". A
/// type or shape that the encoding lacks comes before the numbers.
std::vector<float> numbers_of_array(const std::string& encoding, std::span<const uint8_t> value) {
  ByteReader reader(value);
  const size_t begin = encoding.find(':'), end = encoding.find(':', begin + 1);
  std::string type = begin == std::string::npos ? type_of_array(reader.number<uint8_t>())
                                                : encoding.substr(begin + 1, end - begin - 1);
  uint64_t taken = begin == std::string::npos ? 1 : 0;
  if (begin == std::string::npos || end == std::string::npos) {
    const auto shape = reader.number<uint8_t>();  // number of dimensions << 2 | log2(bytes of each)
    const uint64_t bytes = uint64_t{shape} >> 2 << (shape & 3);
    reader.take(bytes);
    taken += 1 + bytes;
  }
  return numbers_in(value.subspan(taken), type);
}

bool is_target(const Column& column) {
  const auto& encoding = column.encoding;
  return bytes_of_number(type_of(encoding)) > 0 || encoding == "str_int" ||
         encoding == "str_float" || encoding == "str_decimal" || encoding == "ndarray" ||
         encoding.starts_with("ndarray:");
}

std::vector<float> numbers_of(const Column& column, std::span<const uint8_t> value) {
  const auto& encoding = column.encoding;
  if (encoding.starts_with("ndarray")) return numbers_of_array(encoding, value);
  if (encoding.starts_with("str"))
    return numbers_in(std::string_view(reinterpret_cast<const char*>(value.data()), value.size()));
  return numbers_in(value, type_of(encoding));
}

struct Row {
  uint64_t offset, bytes;
  int32_t label;
};

/// The columns that are read.
struct Wanted {
  const Column& image;
  const Column* label = nullptr;  ///< null where there are targets
  std::vector<const Column*> targets{};
};

/// The row of the sample, which begins at `begin`. Adds the sample's numbers to `targets`.
Row row_of(const std::vector<Column>& columns, std::span<const uint8_t> sample, uint64_t begin,
           const Wanted& wanted, TargetRows& targets) {
  const auto values = values_of(columns, sample);
  const auto value = [&](const Column& column) {
    return values[static_cast<size_t>(&column - columns.data())];
  };
  const auto image = value(wanted.image);
  Row row{begin + static_cast<uint64_t>(image.data() - sample.data()), image.size(), 0};
  if (wanted.label != nullptr) row.label = class_of(*wanted.label, value(*wanted.label));
  std::vector<std::vector<float>> numbers;
  for (const Column* column : wanted.targets) {
    try {
      numbers.push_back(numbers_of(*column, value(*column)));
    } catch (const FormatError& problem) {
      throw FormatError("column " + column->name + ": " + problem.what());
    }
  }
  if (!numbers.empty()) targets.add(numbers);
  return row;
}

/// The rows of a raw shard. Throws FormatError.
std::vector<Row> rows_of(PartReader& file, const Shard& shard, const Wanted& wanted,
                         TargetRows& targets) {
  const auto expect = [&](bool good) {
    if (!good) throw FormatError("cut off or damaged");
  };
  expect(file.bytes() >= sizeof(uint32_t));
  const uint64_t samples = ByteReader(file.at(0, sizeof(uint32_t))).number<uint32_t>();
  if (samples != shard.samples)
    throw FormatError("holds " + std::to_string(samples) + " samples; the index says " +
                      std::to_string(shard.samples));
  const uint64_t offset_bytes = (samples + 1) * sizeof(uint32_t);
  expect(file.bytes() - sizeof(uint32_t) >= offset_bytes);
  std::vector<uint32_t> offsets(samples + 1);
  std::memcpy(offsets.data(), file.at(sizeof(uint32_t), offset_bytes).data(), offset_bytes);
  std::vector<Row> rows;
  for (uint64_t i = 0; i < samples; ++i) {
    const uint64_t begin = offsets[i], end = offsets[i + 1];
    expect(begin <= end && end <= file.bytes());
    try {
      rows.push_back(row_of(shard.columns, file.at(begin, end - begin), begin, wanted, targets));
    } catch (const FormatError& error) {
      throw FormatError("sample " + std::to_string(i) + ": " + error.what());
    }
  }
  return rows;
}

bool is_there(const std::string& file, const RemoteOptions& remote) {
  std::error_code error;
  if (!is_remote(file)) return fs::exists(file, error);
  const RemotePath path(file);
  return open_store(path, remote)->stat(path.key()).has_value();
}

bool has_bytes(const fs::path& file, uint64_t bytes, const RemoteOptions& remote = {}) {
  if (is_remote(file.string())) {
    const RemotePath path(file.string());
    const auto object = open_store(path, remote)->stat(path.key());
    return object && object->bytes == bytes;
  }
  std::error_code error;
  return fs::is_regular_file(file, error) && fs::file_size(file, error) == bytes && !error;
}

/// Whether `to` is the unpacked file: its size fits the index, and it is no older than the packed
/// file. by_hash: its hashes also have to fit the index.
bool is_unpacked(const fs::path& to, const fs::path& packed, const Shard& shard, bool by_hash) {
  if (!has_bytes(to, shard.raw.bytes) || fs::last_write_time(to) < fs::last_write_time(packed))
    return false;
  if (!by_hash) return true;
  const auto problem = hash_problem(to, shard.raw.hashes);
  if (!problem.empty()) log::warn(to.string() + ": damaged: " + problem + "; it is unpacked again");
  return problem.empty();
}

bool is_zstd(const Shard& shard) { return shard.compression.starts_with("zstd"); }

/// The error for a shard with the path `packed` that zstd did not compress.
UserError other_compression(const std::string& packed, const Shard& shard) {
  return UserError(shown_path(packed) + ": compressed by " + shard.compression +
                   ", which is not read: only zstd");
}

/// The name of the shard's raw file on a disk, below the folder or absolute. Unpacks the file where
/// it is missing. Throws DamagedFile; UserError for a shard that cannot be read for other reasons.
std::string raw_file(const fs::path& folder, const Shard& shard, const MdsOptions& options) {
  const fs::path& unpack_to = options.unpack_to;
  std::error_code error;
  const auto wrong_size = [](const fs::path& file, uint64_t bytes) {
    return DamagedFile(file.string() + ": has not the " + std::to_string(bytes) +
                       " bytes that the index says");
  };
  const fs::path raw = path_below(folder.string(), shard.raw.name);
  if (has_bytes(raw, shard.raw.bytes)) return shard.raw.name;
  if (fs::exists(raw, error)) throw wrong_size(raw, shard.raw.bytes);
  if (!shard.packed || !fs::exists(folder / shard.packed->name, error))
    throw DamagedFile(raw.string() + ": no such file" +
                      (shard.packed ? ", nor " + shard.packed->name : std::string()));
  const fs::path packed = folder / shard.packed->name;
  if (!is_zstd(shard)) throw other_compression(packed.string(), shard);
  if (!has_bytes(packed, shard.packed->bytes)) throw wrong_size(packed, shard.packed->bytes);
  if (unpack_to.empty())
    throw UserError(packed.string() +
                    ": is compressed, and no folder is known to unpack it to: local_dir names one");
  const fs::path to = unpack_to / shard.raw.name;
  fs::create_directories(to.parent_path(), error);
  if (!is_unpacked(to, packed, shard, /*by_hash=*/options.unreadable == nullptr)) {
    if (const auto problem = hash_problem(packed, shard.packed->hashes); !problem.empty())
      throw DamagedFile(packed.string() + ": damaged: " + problem);
    const PartFile readable(packed.string());  // a file that cannot be opened is not damaged
    try {
      unpack_zstd(packed, to, shard.raw.bytes, shard.raw.hashes);
    } catch (const UserError& error) {
      throw DamagedFile(error.problems());
    }
  }
  return fs::absolute(to).string();
}

/// The file that a shard is read from.
struct ReadFile {
  std::string name;                    ///< below the folder, or absolute
  std::optional<PackedFile> packed{};  ///< set where the machine's cache unpacks the file
  bool is_there = true;                ///< whether it exists, with the size in the index
};

/// The number of threads that read shards. largest: unpacked bytes of the largest compressed shard,
/// which is in memory up to three times (packed, unpacked and read); 0: no shard is compressed.
uint64_t num_readers(uint64_t largest) {
  constexpr uint64_t kMemory = 1 << 30, kMost = 32, kMostOfPacked = 8;
  return largest == 0 ? kMost : std::clamp<uint64_t>(kMemory / 3 / largest, 1, kMostOfPacked);
}

/// The shard's object in the store: the raw one where it exists, else the compressed one. Throws
/// UserError for an unsupported compression, and for an impossible size.
ReadFile stored_file(const std::string& folder, const Shard& shard, const RemoteOptions& remote) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 32;  // offsets in a shard have 32 bits
  const auto has = [&](const ShardFile& file) {
    return has_bytes(path_below(folder, file.name), file.bytes, remote);
  };
  const auto has_packed = [&] { return is_zstd(shard) && has(*shard.packed); };
  const auto packed_file = [&](bool is_there) {
    const std::string path = path_below(folder, shard.packed->name);
    if (!is_zstd(shard)) throw other_compression(path, shard);
    if (shard.raw.bytes > kMostBytes)
      throw UserError(shown_path(path) + ": the index says that it holds " +
                      std::to_string(shard.raw.bytes) + " bytes, more than a shard can");
    return ReadFile{shard.packed->name,
                    PackedFile{shard.packed->hashes, shard.raw.bytes, shard.raw.hashes}, is_there};
  };
  if (!shard.packed) return {shard.raw.name, std::nullopt, has(shard.raw)};
  try {
    if (has(shard.raw)) return {shard.raw.name};
  } catch (const UserError&) {     // some stores refuse (403) missing objects
    std::optional<bool> is_right;  // nullopt: the compressed one is refused too, or missing
    try {
      is_right = has_packed();
      if (!*is_right && !is_there(path_below(folder, shard.packed->name), remote)) is_right.reset();
    } catch (const UserError&) {
    }
    if (!is_right) throw;
    return packed_file(*is_right);
  }
  return packed_file(has_packed());
}

/// The stored_file() of each shard. look_at_all: false assumes that uncompressed shards exist.
std::vector<ReadFile> stored_files(const std::string& folder, const std::vector<Shard>& shards,
                                   const RemoteOptions& remote, bool look_at_all) {
  std::vector<ReadFile> files(shards.size());
  in_several_threads(files.size(), [&](uint64_t i) {
    files[i] = look_at_all || shards[i].packed ? stored_file(folder, shards[i], remote)
                                               : ReadFile{shards[i].raw.name};
  });
  return files;
}

/// Throws DamagedFile; UserError for a shard that cannot be read for other reasons.
ReadFile file_to_read(const fs::path& folder, const Shard& shard, const MdsOptions& options) {
  if (!is_remote(folder.string())) return {raw_file(folder, shard, options)};
  auto stored = stored_file(folder.string(), shard, options.remote);
  if (stored.is_there) return stored;
  const ShardFile& file = stored.packed ? *shard.packed : shard.raw;
  throw DamagedFile(shown_path(path_below(folder.string(), file.name)) +
                    ": there is no such object of " + std::to_string(file.bytes) +
                    " bytes, as the index says");
}

/// The file that the problem begins with the name of, and the rest of the problem.
std::pair<std::string, std::string> wrong_file(const std::string& folder, const Shard& shard,
                                               const std::string& problem) {
  const std::string raw = shown_path(path_below(folder, shard.raw.name));
  for (const auto& file :
       {raw, shard.packed ? shown_path(path_below(folder, shard.packed->name)) : raw})
    if (problem.starts_with(file + ": ")) return {file, problem.substr(file.size() + 2)};
  return {raw, problem};
}

struct ReadShard {
  explicit ReadShard(const std::vector<std::string>& target_names) : targets(target_names) {}

  std::string name{};
  std::vector<Row> rows{};
  TargetRows targets;  ///< empty where samples have classes
  PathStamp stamp{};
  std::optional<UserError> problem{};
  bool is_damaged = false;  ///< whether `problem` is a damaged file
};

/// Names of the columns to read.
struct Chosen {
  std::string image, label;
  std::vector<std::string> targets;
};

/// The columns to read, by those of the first shard. Throws UserError as column_for() does.
Chosen chosen_columns(const std::vector<Column>& columns, const MdsOptions& options) {
  Chosen chosen{column_for("image", options.image, columns, is_image, {"image", "x"}), {}, {}};
  if (options.targets.empty())
    chosen.label = column_for("label", options.label, columns, is_class, {"label", "class", "y"});
  for (const auto& target : options.targets)
    chosen.targets.push_back(column_for("targets", target, columns, is_target, {}));
  return chosen;
}

/// The chosen columns of a shard. Throws FormatError if the shard lacks a column, or has it in
/// an unsupported encoding.
Wanted wanted_columns(const std::vector<Column>& columns, const Chosen& chosen,
                      SampleCoding coding) {
  const auto refuse = [](const Column& column, const char* what) {
    throw FormatError("the column " + column.name + " holds " + column.encoding +
                      ", which is not read as " + what);
  };
  Wanted wanted{column_named(chosen.image, columns)};
  const auto& encoding = wanted.image.encoding;
  const bool fits = is_image(wanted.image) || encoding == "bytes";
  if (!fits || (encoding == "pil") != (coding == SampleCoding::pil))
    refuse(wanted.image, "an image");
  if (chosen.targets.empty()) {
    wanted.label = &column_named(chosen.label, columns);
    if (!is_class(*wanted.label)) refuse(*wanted.label, "a class");
  }
  for (const auto& target : chosen.targets) {
    wanted.targets.push_back(&column_named(target, columns));
    if (!is_target(*wanted.targets.back())) refuse(*wanted.targets.back(), "numbers");
  }
  return wanted;
}

}  // namespace

bool is_mds_index(const std::string& file, const RemoteOptions& remote) {
  const PartFile part(file, remote);
  std::vector<uint8_t> memory;
  const auto bytes = part.read(0, part.bytes(), memory);
  const json index = part.use(bytes, [&] { return json::parse(bytes, nullptr, false); });
  return index.is_discarded() || (index.is_object() && index.contains("shards"));
}

std::vector<std::string> mds_number_columns(const std::string& folder,
                                            const RemoteOptions& remote) {
  const auto shards = read_index(path_below(folder, "index.json"), remote);
  std::vector<std::string> names;
  for (const auto& column : shards[0].columns)
    if (is_target(column)) names.push_back(column.name);
  return names;
}

ShardFiles mds_files(const std::string& folder, const RemoteOptions& remote, bool without_missing) {
  if (!is_remote(folder)) return {path_below(folder, ""), {"index.json"}};
  ShardFiles files{
      .root = (RemotePath(folder) / "").text(), .names = {"index.json"}, .remote = remote};
  files.packed.emplace_back();
  const auto shards = read_index(path_below(folder, "index.json"), remote);
  for (auto& shard : stored_files(folder, shards, remote, without_missing)) {
    if (without_missing && !shard.is_there) continue;
    files.names.push_back(std::move(shard.name));
    files.packed.push_back(std::move(shard.packed));
  }
  for (const auto& name : files.names) files.addresses.push_back(path_below(folder, name));
  find_remote(files, "datadir");
  return files;
}

std::vector<uint8_t> mds_table(const fs::path& folder, const MdsOptions& options) {
  const bool remote = is_remote(folder.string());
  const std::string index_file = path_below(folder.string(), "index.json");
  const auto index_stamp = settled_stamp_of(index_file);
  const auto shards = read_index(index_file, options.remote);
  const auto columns = chosen_columns(shards[0].columns, options);
  const auto coding = column_named(columns.image, shards[0].columns).encoding == "pil"
                          ? SampleCoding::pil
                          : SampleCoding::image_file;
  const bool unpacks =
      !remote && std::any_of(shards.begin(), shards.end(), [&](const Shard& shard) {
        return !has_bytes(folder / shard.raw.name, shard.raw.bytes);
      });
  if (unpacks && !options.unpack_to.empty())
    log::info("shards of " + folder.string() + " that are not there unpacked are unpacked to " +
              options.unpack_to.string());

  std::vector<ReadShard> read(shards.size(), ReadShard(columns.targets));
  const auto read_shard = [&](uint64_t i) {
    std::string path = path_below(folder.string(), shards[i].raw.name);
    try {
      const Wanted wanted = wanted_columns(shards[i].columns, columns, coding);
      const ReadFile from = file_to_read(folder, shards[i], options);
      read[i].name = from.name;
      path = path_below(folder.string(), from.name);
      if (!remote) read[i].stamp = settled_stamp_of(path);
      const auto read_rows = [&](PartReader& file) {
        return rows_of(file, shards[i], wanted, read[i].targets);
      };
      read[i].rows = read_parts(path, read_rows, options.remote, from.packed);
    } catch (const FormatError& error) {
      read[i].problem.emplace(shown_path(path) + ": " + error.what());
      read[i].is_damaged = !read[i].name.empty();  // without a name the error is in the index
    } catch (const DamagedFile& error) {
      read[i].problem.emplace(error);
      read[i].is_damaged = true;
    } catch (const UserError& error) {
      read[i].problem.emplace(error);
    }
  };
  uint64_t largest = 0;
  for (const auto& shard : shards)
    if (remote && shard.packed) largest = std::max(largest, shard.raw.bytes);
  in_several_threads(read.size(), read_shard, num_readers(largest));
  SampleTableWriter writer(/*parts=*/true, coding);
  if (!remote) writer.watch("index.json", index_stamp);
  std::vector<std::string> problems;
  TargetRows targets(columns.targets);
  for (size_t number = 0; number < read.size(); ++number) {
    const ReadShard& shard = read[number];
    if (shard.is_damaged && options.unreadable != nullptr) {
      options.unreadable->push_back(
          wrong_file(folder.string(), shards[number], shard.problem->what()));
      continue;
    }
    if (shard.problem) {
      problems.emplace_back(shard.problem->what());
      continue;
    }
    try {
      targets.append(shard.targets);
    } catch (const FormatError& problem) {
      problems.push_back(shown_path(path_below(folder.string(), shard.name)) +
                         ": its samples have " + problem.what());
    }
    for (size_t i = 0; i < shard.rows.size(); ++i)
      writer.add_part(shard.name, "sample " + std::to_string(i), shard.rows[i].offset,
                      shard.rows[i].bytes, shard.rows[i].label);
    if (!remote) writer.watch(shard.name, shard.stamp);
  }
  throw_problems(std::move(problems), "shards");
  if (!columns.targets.empty() && writer.size() > 0) writer.set_values(targets);
  return writer.bytes();
}

WrongFiles wrong_mds_hashes(const std::string& folder, const fs::path& unpack_to,
                            const RemoteOptions& remote) {
  struct Hashed {
    std::string path;
    FileHashes hashes;
    std::optional<PackedFile> packed;
  };
  std::vector<Hashed> files;
  std::set<std::string> unknown;
  const auto note_unknown = [&](const FileHashes& hashes) {
    for (const auto& [algorithm, hash] : hashes)
      if (!Digest::knows(algorithm)) unknown.insert(algorithm);
  };
  const auto add = [&](const std::string& path, const ShardFile& file,
                       const std::optional<PackedFile>& packed = std::nullopt) {
    note_unknown(file.hashes);
    if (packed) note_unknown(packed->packed_hashes);
    if (!file.hashes.empty()) files.push_back({path, file.hashes, packed});
  };
  const auto shards = read_index(path_below(folder, "index.json"), remote);
  if (is_remote(folder)) {
    const auto stored = stored_files(folder, shards, remote, /*look_at_all=*/false);
    for (size_t i = 0; i < shards.size(); ++i)
      add(path_below(folder, stored[i].name), shards[i].raw, stored[i].packed);
  } else {
    for (const auto& shard : shards) {
      add(path_below(folder, shard.raw.name), shard.raw);
      if (!unpack_to.empty()) add(unpack_to / shard.raw.name, shard.raw);
      if (shard.packed) add(path_below(folder, shard.packed->name), *shard.packed);
    }
  }
  if (!unknown.empty())
    log::warn("hashes of " + joined({unknown.begin(), unknown.end()}) +
              " are not checked: they are not known here");
  std::vector<std::string> problems(files.size());
  const auto check = [&](uint64_t i) {
    const auto& [path, hashes, packed] = files[i];
    const auto note = [&, path = shown_path(path)](const std::exception& error) {
      problems[i] = error.what();
      if (problems[i].starts_with(path + ": ")) problems[i].erase(0, path.size() + 2);
    };
    try {
      if (is_there(path, remote)) problems[i] = hash_problem(path, hashes, remote, packed);
    } catch (const DamagedFile& error) {
      note(error);
    } catch (const std::runtime_error& error) {
      if (is_remote(path)) throw;
      note(error);
    }
  };
  uint64_t largest = 0;
  for (const auto& file : files)
    if (file.packed) largest = std::max(largest, file.packed->bytes);
  in_several_threads(files.size(), check, num_readers(largest));
  WrongFiles wrong;
  for (size_t i = 0; i < files.size(); ++i)
    if (!problems[i].empty()) wrong.emplace_back(shown_path(files[i].path), problems[i]);
  return wrong;
}

}  // namespace composer
