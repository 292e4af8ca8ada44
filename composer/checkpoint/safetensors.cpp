#include "composer/checkpoint/safetensors.h"

#include <ATen/ATen.h>

#include <bit>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/files/mapped_file.h"
#include "base/params/foreign_json.h"
#include "base/save_progress.h"

namespace composer {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little);

const std::map<std::string, at::ScalarType>& types() {
  static const std::map<std::string, at::ScalarType> all{
      {"BOOL", at::kBool},
      {"U8", at::kByte},
      {"I8", at::kChar},
      {"I16", at::kShort},
      {"I32", at::kInt},
      {"I64", at::kLong},
      {"F16", at::kHalf},
      {"BF16", at::kBFloat16},
      {"F32", at::kFloat},
      {"F64", at::kDouble},
      {"U16", at::kUInt16},
      {"U32", at::kUInt32},
      {"U64", at::kUInt64},
      {"F8_E4M3", at::kFloat8_e4m3fn},
      {"F8_E5M2", at::kFloat8_e5m2},
  };
  return all;
}

const std::string& type_name(at::ScalarType type, const std::string& tensor) {
  for (const auto& [name, candidate] : types())
    if (candidate == type) return name;
  throw RunError("safetensors cannot hold '" + tensor + "' of type " + at::toString(type));
}

// ---- reading

struct Entry {
  std::string name;
  at::ScalarType type;
  std::vector<int64_t> shape;
  uint64_t begin, end;  // offsets in the data that follow the header
};

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_(path) {}

  TensorMap read(std::span<const uint8_t> bytes) const {
    const auto text = header(bytes);
    const auto data = bytes.subspan(sizeof(uint64_t) + text.size());
    const auto entries = entries_of(parse(text));
    check_layout(entries, data.size());

    TensorMap tensors;
    for (const Entry& entry : entries) {
      // A bool with any other byte than 0 and 1 is undefined behaviour.
      const bool is_bool = entry.type == at::kBool;
      auto tensor = at::empty(entry.shape, is_bool ? at::kByte : entry.type);
      if (entry.end > entry.begin)
        std::memcpy(tensor.data_ptr(), data.data() + entry.begin, entry.end - entry.begin);
      if (is_bool) tensor = tensor.ne(0);
      tensors.emplace(entry.name, std::move(tensor));
    }
    return tensors;
  }

  std::map<std::string, std::string> metadata(std::span<const uint8_t> bytes) const {
    std::map<std::string, std::string> strings;
    const auto parsed = parse(header(bytes));
    if (const auto found = parsed.find("__metadata__"); found != parsed.end() && found->is_object())
      for (const auto& [name, value] : found->items())
        if (value.is_string()) strings[name] = value.get<std::string>();
    return strings;
  }

 private:
  static constexpr uint64_t max_header = 100'000'000;  // the format's own limit
  static constexpr size_t max_dimensions = 64;

  UserError fail(const std::string& reason) const {
    return UserError(path_.string() + ": " + reason);
  }

  std::span<const uint8_t> header(std::span<const uint8_t> bytes) const {
    uint64_t size = 0;
    if (bytes.size() < sizeof size) throw fail("too short to be a safetensors file");
    std::memcpy(&size, bytes.data(), sizeof size);
    if (size > bytes.size() - sizeof size || size > max_header)
      throw fail("no safetensors file, or cut off: its header should have " + std::to_string(size) +
                 " bytes");
    return bytes.subspan(sizeof size, size);
  }

  Json parse(std::span<const uint8_t> text) const {
    std::set<std::string> keys;
    const auto unique = [&](int depth, Json::parse_event_t event, Json& parsed) {
      if (depth == 1 && event == Json::parse_event_t::key && !keys.insert(parsed).second)
        throw fail("'" + parsed.get<std::string>() + "' stands in the header twice");
      return true;
    };
    Json header;
    try {
      header = Json::parse(text.begin(), text.end(), unique);
    } catch (const Json::exception&) {
      throw fail("the header is no valid JSON");
    }
    if (!header.is_object()) throw fail("the header is no JSON object");
    return header;
  }

  // The entries in the order of their data.
  std::vector<Entry> entries_of(const Json& header) const {
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items())
      if (name != "__metadata__") entries.push_back(parse_entry(name, value));
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
    });
    return entries;
  }

  Entry parse_entry(const std::string& name, const Json& value) const {
    const auto wrong = [&](const std::string& what) {
      return fail("tensor '" + name + "': " + what);
    };
    const auto whole = [](const Json& number) {
      return number.is_number_unsigned() && number.get<uint64_t>() <= INT64_MAX;
    };
    if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") ||
        !value.contains("data_offsets"))
      throw wrong("needs dtype, shape and data_offsets");
    const Json &dtype = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];
    if (!dtype.is_string() || !types().contains(dtype))
      throw wrong("unknown dtype " + shown_value(dtype));
    if (!shape.is_array() || shape.size() > max_dimensions ||
        !std::all_of(shape.begin(), shape.end(), whole))
      throw wrong("the shape is no list of whole numbers");
    if (!offsets.is_array() || offsets.size() != 2 || !whole(offsets[0]) || !whole(offsets[1]))
      throw wrong("data_offsets are no two whole numbers");

    Entry entry{name, types().at(dtype), shape.get<std::vector<int64_t>>(), offsets[0], offsets[1]};
    // The product without the zeros must fit too: strides are made of it.
    auto size = static_cast<int64_t>(at::elementSize(entry.type));
    bool empty = false;
    for (const int64_t length : entry.shape) {
      empty |= length == 0;
      if (__builtin_mul_overflow(size, std::max<int64_t>(length, 1), &size))
        throw wrong("the shape is too large");
    }
    if (entry.begin > entry.end ||
        entry.end - entry.begin != static_cast<uint64_t>(empty ? 0 : size))
      throw wrong("shape and data_offsets contradict each other");
    return entry;
  }

  void check_layout(const std::vector<Entry>& entries, uint64_t size) const {
    uint64_t position = 0;
    for (const Entry& entry : entries) {
      if (entry.end > size)
        throw fail("cut off: tensor '" + entry.name + "' ends " + std::to_string(entry.end - size) +
                   " bytes behind the end of the file");
      if (entry.begin != position)
        throw fail(
            "tensor '" + entry.name + "' " +
            (entry.begin < position ? "overlaps another" : "does not follow the one before"));
      position = entry.end;
    }
    if (position != size)
      throw fail(std::to_string(size - position) + " bytes at the end belong to no tensor");
  }

  std::filesystem::path path_;
};

// ---- writing

/// A file whose checksum is computed while it is written, block by block, each in the CPU's cache.
class SummedFile {
 public:
  explicit SummedFile(const std::filesystem::path& path) : file_(path) {}

  void write(std::span<const uint8_t> bytes) {
    constexpr size_t most = 1 << 20;
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(most, bytes.size()))) {
      const auto block = bytes.first(std::min(most, bytes.size()));
      sum_.add(block);
      file_.write(block);
      saved_bytes += std::ssize(block);
    }
  }

  Checksum commit_to_disk() {
    file_.commit_to_disk();
    return sum_;
  }

 private:
  AtomicFile file_;
  Checksum sum_;
};

}  // namespace

Checksum write_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                           const std::map<std::string, std::string>& metadata) {
  // Wide types first, so that every tensor is aligned.
  std::vector<TensorMap::const_iterator> order;
  for (auto it = tensors.begin(); it != tensors.end(); ++it) order.push_back(it);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a->second.element_size() > b->second.element_size();
  });

  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  size_t offset = 0;
  for (const auto& it : order) {
    const auto& [name, tensor] = *it;
    header[name] = {{"dtype", type_name(tensor.scalar_type(), name)},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, offset + tensor.nbytes()}}};
    offset += tensor.nbytes();
  }
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');

  SummedFile file(path);
  const uint64_t header_size = text.size();
  file.write({reinterpret_cast<const uint8_t*>(&header_size), sizeof header_size});
  file.write({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  for (const auto& it : order) {
    const auto plain = it->second.detach().to(at::kCPU).contiguous();
    file.write({static_cast<const uint8_t*>(plain.const_data_ptr()), plain.nbytes()});
  }
  return file.commit_to_disk();
}

TensorMap read_safetensors(const std::filesystem::path& path) {
  const MappedFile file(path);
  const Reader reader(path);
  return file.use_all([&](std::span<const uint8_t> bytes) { return reader.read(bytes); });
}

std::map<std::string, std::string> read_safetensors_metadata(const std::filesystem::path& path) {
  const MappedFile file(path);
  const Reader reader(path);
  return file.use_all([&](std::span<const uint8_t> bytes) { return reader.metadata(bytes); });
}

}  // namespace composer
