#include "data/shards/webdataset.h"

#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/byte_reader.h"
#include "base/files/system_files.h"
#include "base/log.h"
#include "base/params/utf8.h"
#include "base/several_threads.h"
#include "base/text.h"
#include "data/samples/class_folders.h"
#include "data/samples/sample_table.h"
#include "data/samples/target_rows.h"

namespace composer {
namespace {

constexpr uint64_t kTarBlock = 512;
constexpr uint64_t kLongestHeader = 1 << 20;  // most bytes of an extended header

/// The extent of a field in a header's block.
struct Field {
  size_t begin, bytes;
};
constexpr Field kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kMagic{257, 6}, kPrefix{345, 155};
constexpr size_t kType = 156;

/// One block.
class Header {
 public:
  explicit Header(std::span<const uint8_t> block) {
    std::copy_n(block.begin(), kTarBlock, block_.begin());
  }

  bool is_zero() const {
    return std::all_of(block_.begin(), block_.end(), [](uint8_t byte) { return byte == 0; });
  }
  char type() const { return static_cast<char>(block_[kType]); }

  /// The text of a field, up to the first 0.
  std::string text(Field field) const {
    const auto bytes = std::span(block_).subspan(field.begin, field.bytes);
    return {bytes.begin(), std::find(bytes.begin(), bytes.end(), uint8_t{0})};
  }

  /// Octal digits, or GNU's big-endian number; nullopt for anything else, and for a larger number.
  std::optional<uint64_t> number(Field field) const {
    const auto bytes = std::span(block_).subspan(field.begin, field.bytes);
    uint64_t value = 0;
    if ((bytes[0] & 0x80) != 0) {
      for (size_t i = 0; i < bytes.size(); ++i) {
        if (value >> 55 != 0) return std::nullopt;
        value = value << 8 | (i == 0 ? bytes[i] & 0x7F : bytes[i]);
      }
      return value;
    }
    size_t i = 0;
    while (i < bytes.size() && bytes[i] == ' ') ++i;
    for (; i < bytes.size() && bytes[i] >= '0' && bytes[i] <= '7'; ++i)
      value = value << 3 | static_cast<uint64_t>(bytes[i] - '0');
    if (i < bytes.size() && bytes[i] != ' ' && bytes[i] != 0) return std::nullopt;
    return value;
  }

  /// Whether the checksum fits the block, with spaces in the field of the checksum. Some writers
  /// summed signed bytes.
  bool sum_fits() const {
    const auto wanted = number(kChecksum);
    int64_t with_sign = 0, without = 0;
    for (size_t i = 0; i < block_.size(); ++i) {
      const bool of_sum = i >= kChecksum.begin && i < kChecksum.begin + kChecksum.bytes;
      const uint8_t byte = of_sum ? uint8_t{' '} : block_[i];
      without += byte, with_sign += static_cast<int8_t>(byte);
    }
    return wanted &&
           (static_cast<int64_t>(*wanted) == without || static_cast<int64_t>(*wanted) == with_sign);
  }

  /// The path of a member without extended headers.
  std::string path() const {
    const std::string name = text(kName);
    const bool ustar = std::memcmp(block_.data() + kMagic.begin, "ustar", 6) == 0;
    const std::string prefix = ustar ? text(kPrefix) : "";
    return prefix.empty() ? name : prefix + '/' + name;
  }

 private:
  std::array<uint8_t, kTarBlock> block_;
};

[[noreturn]] void fail(const std::string& problem, uint64_t at) {
  throw FormatError(problem + " (at byte " + std::to_string(at) + ")");
}

bool is_compressed(std::span<const uint8_t> bytes) {
  const auto begins = [&](std::initializer_list<uint8_t> magic) {
    return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
  };
  return begins({0x1F, 0x8B}) || begins({0x28, 0xB5, 0x2F, 0xFD}) ||
         begins({0xFD, '7', 'z', 'X'}) || begins({'B', 'Z', 'h'});
}

std::string_view text_of(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct Row {
  std::string name;
  uint64_t offset, bytes;
  int32_t label;
};

struct Shard {
  explicit Shard(const std::vector<std::string>& target_names) : targets(target_names) {}

  std::vector<Row> rows{};
  TargetRows targets;  ///< empty where samples have classes
  std::vector<std::string> problems{};
  PathStamp stamp{};
  bool has_end = true;
};

/// The two parts of a member's path.
struct SampleFile {
  std::string key, ending;  ///< the ending in small letters
};

/// nullopt for a file that belongs to no sample.
std::optional<SampleFile> sample_file(const std::string& path) {
  const size_t slash = std::min(path.find('/'), path.size());
  if (path.starts_with("__") && slash >= 4 && path.compare(slash - 2, 2, "__") == 0)
    return std::nullopt;
  const size_t name = path.rfind('/') + 1, dot = path.find('.', name);
  if (dot == std::string::npos || dot == name || is_in_system_folder(path)) return std::nullopt;
  return SampleFile{path.substr(0, dot), lower_case(path.substr(dot + 1))};
}

/// The class in a text; nullopt where the text is no class.
std::optional<int32_t> class_of(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r') || c == '\0'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  const auto number = to_number<int32_t>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

std::optional<int32_t> class_of_json(std::string_view text, const std::string& name) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains(name)) return std::nullopt;
  const auto& value = json[name];
  if (!value.is_number_integer() || value < 0 || value > std::numeric_limits<int32_t>::max())
    return std::nullopt;
  return value.get<int32_t>();
}

std::vector<float> numbers_in_json(std::string_view text, const std::string& name) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object())
    throw FormatError(find_invalid_utf8(text) == text.npos ? "it is no JSON object"
                                                           : "it is not UTF-8");
  if (!json.contains(name)) {
    std::vector<std::string> names;
    for (const auto& [key, value] : json.items()) names.push_back(key);
    throw FormatError("there is no such name, only " + first_few(names) +
                      nearest_name(name, names));
  }
  return numbers_in(json[name]);
}

/// The files of one sample.
struct Sample {
  std::string key;
  std::vector<std::pair<std::string, TarMember>> files;  ///< by ending

  const TarMember* find(const std::string& ending) const {
    for (const auto& [own, member] : files)
      if (own == ending) return &member;
    return nullptr;
  }
};

/// Reads the samples of a tar file, one after the other.
class Samples {
 public:
  explicit Samples(PartReader& file)
      : tar_(file.bytes(),
             [&file](uint64_t begin, uint64_t bytes) { return file.at(begin, bytes); }) {}

  std::optional<Sample> next() {
    std::optional<Sample> sample;
    if (waiting_) add(sample), waiting_.reset();
    while (const auto member = tar_.next()) {
      const auto file = sample_file(member->path);
      if (!file) continue;
      waiting_ = {*file, *member};
      if (sample && sample->key != file->key) return sample;
      add(sample);
      waiting_.reset();
    }
    return sample;
  }
  const TarReader& tar() const { return tar_; }

 private:
  void add(std::optional<Sample>& sample) const {
    const auto& [file, member] = *waiting_;
    if (!sample) sample.emplace().key = file.key;
    if (sample->find(file.ending) != nullptr)
      throw FormatError("the sample " + file.key + " has two files ." + file.ending);
    sample->files.emplace_back(file.ending, member);
  }

  TarReader tar_;
  std::optional<std::pair<SampleFile, TarMember>> waiting_;  ///< the next sample's first file
};

std::string endings_of(const Sample& sample) {
  std::vector<std::string> all;
  for (const auto& [ending, member] : sample.files) all.push_back('.' + ending);
  return first_few(std::move(all));
}

/// The endings of the sample's files, and which of them may be meant.
std::string endings_near(const std::string& wanted, const Sample& sample) {
  std::vector<std::string> all;
  for (const auto& [ending, member] : sample.files) all.push_back(ending);
  return endings_of(sample) + nearest_name(wanted, all);
}

/// The file of a sample that has a target.
struct TargetFile {
  explicit TargetFile(const std::string& target)
      : in_json(target == "json" || target.starts_with("json.")),
        ending(in_json ? "json" : target),
        name(target == "json" ? "label" : target.substr(target.find('.') + 1)) {}

  bool in_json;
  std::string ending;
  std::string name;  ///< key of the JSON object
};

/// Reads a sample's image, and its class or numbers.
class Reader {
 public:
  Reader(const WebDatasetFiles& files, PartReader& shard) : files_(files), shard_(shard) {}

  /// Throws FormatError naming the file that the sample lacks.
  Row row(const Sample& sample) const {
    const TarMember& image = image_of(sample);
    return {image.path, image.offset, image.bytes, files_.targets.empty() ? label_of(sample) : 0};
  }

  /// Adds the sample's numbers, where there are targets. Throws FormatError as row() does.
  void add_numbers(const Sample& sample, TargetRows& rows) const {
    if (files_.targets.empty()) return;
    std::vector<std::vector<float>> all;
    for (const auto& target : files_.targets) all.push_back(numbers_of(sample, target));
    try {
      rows.add(all);
    } catch (const FormatError& problem) {
      fail(sample, problem.what());
    }
  }

 private:
  const TarMember& image_of(const Sample& sample) const {
    const TarMember* image = nullptr;
    if (files_.image != "auto") {
      image = sample.find(files_.image);
      if (image == nullptr)
        fail(sample, "no ." + files_.image + ", only " + endings_near(files_.image, sample));
      return *image;
    }
    std::vector<std::string> images;
    for (const auto& [ending, member] : sample.files) {
      if (file_kind_of("x." + ending) == FileKind::other) continue;
      images.push_back('.' + ending);
      image = &member;
    }
    if (images.size() > 1)
      fail(sample, "several images (" + first_few(images) + "): say which by image: ENDING");
    if (image == nullptr) fail(sample, "no image, only " + endings_of(sample));
    return *image;
  }

  int32_t label_of(const Sample& sample) const {
    const TargetFile target_file(files_.label);
    const auto text = text_of(sample, target_file, " with its class");
    if (target_file.in_json && find_invalid_utf8(text) != text.npos)
      fail(sample, "a .json that is not UTF-8");
    const auto label = target_file.in_json ? class_of_json(text, target_file.name) : class_of(text);
    if (!label)
      fail(sample, target_file.in_json
                       ? "no class number named " + target_file.name + " in its .json"
                       : "no class number in its ." + target_file.ending);
    return *label;
  }

  std::vector<float> numbers_of(const Sample& sample, const std::string& target) const {
    const TargetFile target_file(target);
    const auto text = text_of(sample, target_file, "");
    try {
      return target_file.in_json ? numbers_in_json(text, target_file.name) : numbers_in(text);
    } catch (const FormatError& problem) {
      fail(sample, "no numbers in its ." + target + ": " + problem.what());
    }
  }

  std::string_view text_of(const Sample& sample, const TargetFile& target, const char* what) const {
    const TarMember* const file = sample.find(target.ending);
    if (file == nullptr)
      fail(sample, "no ." + target.ending + what + ", only " + endings_near(target.ending, sample));
    const auto content = shard_.at(file->offset, file->bytes);
    return {reinterpret_cast<const char*>(content.data()), content.size()};
  }

  [[noreturn]] static void fail(const Sample& sample, const std::string& problem) {
    throw FormatError("the sample " + sample.key + " has " + problem);
  }

  const WebDatasetFiles& files_;
  PartReader& shard_;
};

/// The label of `auto`: the first of cls, json and txt that the first sample has.
std::string label_kind(const ShardFiles& shards) {
  for (size_t i = 0; i < shards.names.size(); ++i) {
    const auto sample = read_parts(
        shards.path(i), [](auto& file) { return Samples(file).next(); }, shards.remote);
    if (!sample) continue;
    for (const char* kind : {"cls", "json", "txt"})
      if (sample->find(kind) != nullptr) return kind;
    throw UserError(shards.shown(i) + ": the sample " + sample->key +
                    " has no class: neither .cls, .json nor .txt, only " + endings_of(*sample) +
                    "; label: says where it is");
  }
  throw UserError(shards.shown(0) + ": no shard has a sample");
}

void read_shard(const std::string& path, const RemoteOptions& remote, const WebDatasetFiles& files,
                Shard& shard) {
  constexpr size_t most_problems = 3;
  if (!is_remote(path)) shard.stamp = settled_stamp_of(path);
  const auto read = [&](auto& file) {
    Samples samples(file);
    const Reader reader(files, file);
    while (const auto sample = samples.next()) {
      try {
        const Row row = reader.row(*sample);
        reader.add_numbers(*sample, shard.targets);
        shard.rows.push_back(row);
      } catch (const FormatError& problem) {
        shard.problems.push_back(shown_path(path) + ": " + problem.what());
        if (shard.problems.size() == most_problems) return true;
      }
    }
    shard.has_end = samples.tar().has_end_mark();
    return true;
  };
  read_parts(path, read, remote);
}

}  // namespace

/// Reads records "LENGTH KEY=VALUE\n", where LENGTH counts the whole record.
void TarReader::read_pax(std::span<const uint8_t> records, bool global) {
  std::string_view text = text_of(records);
  while (!text.empty()) {
    uint64_t length = 0;
    const auto [digits, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto head = static_cast<size_t>(digits - text.data()) + 1;  // with the space
    const size_t equals = text.find('=');
    if (error != std::errc() || length > text.size() || length <= head || text[head - 1] != ' ' ||
        text[length - 1] != '\n' || equals == std::string_view::npos || equals < head ||
        equals >= length)
      fail("an extended header is damaged", position_);
    const auto key = text.substr(head, equals - head);
    const auto value = text.substr(equals + 1, length - equals - 2);
    if (key == "path") {
      (global ? global_path_ : path_) = std::string(value);
    } else if (key == "size") {
      const auto size = to_number<uint64_t>(value);
      if (!size) fail("an extended header is damaged", position_);
      (global ? global_size_ : size_) = *size;
    } else if (key.starts_with("GNU.sparse.")) {
      fail("holds a sparse file, which is not read", position_);
    }
    text.remove_prefix(length);
  }
}

std::optional<TarMember> TarReader::next() {
  for (;;) {
    if (position_ == bytes_) return std::nullopt;
    if (bytes_ - position_ < kTarBlock) fail("the tar file is cut off", position_);
    const Header header(read_(position_, kTarBlock));
    if (header.is_zero()) {
      has_end_mark_ = true;
      position_ = bytes_;
      return std::nullopt;
    }
    if (!header.sum_fits()) {
      if (position_ == 0 && is_compressed(read_(0, kTarBlock)))
        fail("a compressed tar file: unpack it", 0);
      fail(position_ == 0 ? "no tar file" : "the tar file is damaged", position_);
    }
    const char type = header.type();
    const bool extends = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    // Links, folders and devices have no content, whatever their header says.
    const bool is_empty = type >= '1' && type <= '6';
    std::optional<uint64_t> size = header.number(kSize);
    if (!extends && (size_ || global_size_)) size = size_ ? size_ : global_size_;
    if (!size) fail("the tar file is damaged: a member without a size", position_);
    const uint64_t bytes = is_empty ? 0 : *size, begin = position_ + kTarBlock;
    if (bytes > bytes_ - begin) fail("the tar file is cut off or damaged", position_);
    if (extends && bytes > kLongestHeader) fail("an extended header is too long", position_);
    if (type == 'S') fail("holds a sparse file, which is not read", position_);
    TarMember member{.path = path_          ? *path_
                             : global_path_ ? *global_path_
                                            : header.path(),
                     .offset = begin,
                     .bytes = bytes};
    if (type == 'x' || type == 'g') {
      read_pax(read_(begin, bytes), type == 'g');
    } else if (type == 'L') {
      const auto text = text_of(read_(begin, bytes));
      path_ = std::string(text.substr(0, text.find('\0')));
    } else if (type != 'K') {
      path_.reset(), size_.reset();
    }
    // The padding of the last member may be missing.
    position_ = std::min(begin + (bytes + kTarBlock - 1) / kTarBlock * kTarBlock, bytes_);
    const bool is_file = type == '0' || type == '\0' || type == '7';
    if (is_file && !member.path.ends_with('/')) return member;  // the oldest form of a folder
  }
}

std::vector<uint8_t> webdataset_table(const ShardFiles& shards, const WebDatasetFiles& files) {
  WebDatasetFiles wanted = files;
  if (wanted.targets.empty() && wanted.label == "auto") wanted.label = label_kind(shards);
  std::vector<Shard> read(shards.names.size(), Shard(wanted.targets));
  in_several_threads(read.size(), [&](uint64_t i) {
    try {
      read_shard(shards.path(i), shards.remote, wanted, read[i]);
    } catch (const UserError& error) {
      read[i].problems.emplace_back(error.what());
    }
  });
  SampleTableWriter writer(/*parts=*/true);
  std::vector<std::string> problems, endless;
  TargetRows targets(wanted.targets);
  for (size_t i = 0; i < read.size(); ++i) {
    problems.insert(problems.end(), read[i].problems.begin(), read[i].problems.end());
    try {
      targets.append(read[i].targets);
    } catch (const FormatError& problem) {
      problems.push_back(shards.shown(i) + ": its samples have " + problem.what());
    }
    if (!read[i].has_end) endless.push_back(shards.shown(i));
    for (const auto& row : read[i].rows)
      writer.add_part(shards.names[i], row.name, row.offset, row.bytes, row.label);
    if (!is_remote(shards.path(i))) writer.watch(shards.names[i], read[i].stamp);
  }
  throw_problems(std::move(problems), "problems");
  if (!endless.empty())
    log::warn("no mark at the end of " + first_few(std::move(endless)) +
              ": written to the end, or cut off?");
  if (!wanted.targets.empty()) writer.set_values(targets);
  return writer.bytes();
}

}  // namespace composer
