#include "data/beton/source.h"

#include <algorithm>
#include <fstream>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/log.h"
#include "base/remote/object_store.h"
#include "base/remote/range_cache.h"
#include "base/text.h"
#include "data/index/index_location.h"
#include "data/samples/target_rows.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostValues = 1 << 20;

struct PlainNumber {
  size_t bytes;
  float (*read)(const uint8_t* at);
};

template <class T>
float read_number(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<float>(value);
}

/// The type with this name in numpy; null unless it is a plain number of this machine's byte order.
const PlainNumber* plain_number(const std::string& dtype) {
  static const std::map<std::string, PlainNumber> numbers{
      {"<f4", {4, read_number<float>}},    {"<f8", {8, read_number<double>}},
      {"|b1", {1, read_number<uint8_t>}},  {"|u1", {1, read_number<uint8_t>}},
      {"|i1", {1, read_number<int8_t>}},   {"<i2", {2, read_number<int16_t>}},
      {"<u2", {2, read_number<uint16_t>}}, {"<i4", {4, read_number<int32_t>}},
      {"<u4", {4, read_number<uint32_t>}}, {"<i8", {8, read_number<int64_t>}},
      {"<u8", {8, read_number<uint64_t>}}};
  const auto found = numbers.find(dtype);
  return found == numbers.end() ? nullptr : &found->second;
}

/// How many numbers each sample has in the field; 0 where it holds none.
int64_t numbers_in(const BetonField& field) {
  if (field.type == BetonType::real || field.type == BetonType::integer) return 1;
  const bool array = field.type == BetonType::array || field.type == BetonType::tensor;
  if (!array || plain_number(field.dtype) == nullptr) return 0;
  int64_t numbers = 1;
  for (const int64_t length : field.shape) numbers *= length;
  return numbers;
}

/// The field of this type that is trained on.
size_t field_of(const BetonFile& file, BetonType type, const char* what) {
  const auto field = type == BetonType::integer ? label_field(file) : file.find_field(type);
  if (field) return *field;
  const auto numbers = number_fields(file);
  const bool has_numbers = type == BetonType::integer && !numbers.empty();
  throw UserError(file.path().string() + ": has no " + what +
                  " field; a set of images has one image and one integer field" +
                  (has_numbers ? ", or targets that name fields of numbers: " + first_few(numbers)
                               : std::string()));
}

/// The image field with this name, or without one the first.
size_t image_field(const BetonFile& file, const std::string& name) {
  if (name.empty()) return field_of(file, BetonType::image, "image");
  if (const auto field = file.find_field(BetonType::image, name)) return *field;
  throw UserError(file.path().string() + ": has no image field '" + name + "'");
}

/// The field of numbers with this name, or the fields name[0], name[1], ... of a target with
/// several numbers.
std::vector<size_t> fields_of_target(const BetonFile& file, const std::string& name) {
  const auto names = number_fields(file);
  std::map<std::string, size_t> fields;
  for (size_t i = 0; i < file.fields().size(); ++i)
    if (numbers_in(file.fields()[i]) > 0) fields.emplace(file.fields()[i].name, i);
  if (const auto found = fields.find(name); found != fields.end()) return {found->second};
  std::vector<size_t> parts;
  for (auto part = fields.find(name + "[0]"); part != fields.end();
       part = fields.find(name + "[" + std::to_string(parts.size()) + "]"))
    parts.push_back(part->second);
  if (!parts.empty()) return parts;
  throw UserError("targets: " + file.path().string() + " has no field of numbers '" + name +
                  "'; those it has: " + (names.empty() ? "none" : first_few(names)) +
                  nearest_name(name, names));
}

/// Logs a copy's progress every five seconds.
class CopyProgress {
 public:
  CopyProgress(const std::string& from, const fs::path& folder, uint64_t bytes)
      : what_("copying " + from + " to " + folder.string() + ": "), bytes_(bytes) {}

  void tell(uint64_t done) {
    const double now = steady_seconds();
    if (now - told_ < 5 || done >= bytes_) return;
    told_ = now;
    const double megabytes = static_cast<double>(done) / 1e6;
    log::info(what_ + std::to_string(done * 100 / bytes_) + " %, " +
              std::to_string(static_cast<int64_t>(megabytes / (now - begin_))) + " MB/s");
  }

 private:
  std::string what_;
  uint64_t bytes_;
  double begin_ = steady_seconds(), told_ = begin_;
};

/// folder: the folder of `out`.
void copy_whole(const fs::path& from, uint64_t bytes, const fs::path& folder, AtomicFile& out) {
  std::ifstream in(from, std::ios::binary);
  std::vector<uint8_t> block(size_t{8} << 20);
  CopyProgress progress(from.string(), folder, bytes);
  while (in.read(reinterpret_cast<char*>(block.data()), static_cast<std::streamsize>(block.size())),
         in.gcount() > 0) {
    out.write({block.data(), static_cast<size_t>(in.gcount())});
    progress.tell(out.position());
  }
  if (out.position() != bytes) {
    throw RunError(from.string() + ": " + std::to_string(out.position()) + " of its " +
                   std::to_string(bytes) + " bytes could be read");
  }
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

UserError no_copy(const std::string& path, const std::string& folder, uint64_t bytes,
                  const std::string& reason) {
  return UserError(folder + ": has no copy of " + path + ", which needs " +
                   std::to_string(bytes / 1'000'000) + " MB of room: " + reason);
}

/// copy_to_folder for an object of a store.
std::string download_to_folder(ObjectStore& store, const RemotePath& path,
                               const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  const auto object = store.stat(path.key());
  if (!object) throw UserError(path.text() + ": there is no such object");
  const fs::path to = fs::path(folder) / path.name(), origin = to.string() + ".origin";
  const std::string version = path.identity() + "\n" + object->etag + "\n";
  if (fs::is_regular_file(to, error) && fs::file_size(to) == object->bytes &&
      text_of(origin) == version)
    return to.string();
  remove_partial_files(folder);
  try {
    AtomicFile out(to), note(origin);
    CopyProgress progress(path.text(), folder, object->bytes);
    download(store, *object, out, [&](uint64_t done) { progress.tell(done); });
    note.write(version);
    fs::remove(origin, error);  // the copy that it described is replaced
    out.commit();
    note.commit();
  } catch (const RunError& problem) {
    throw no_copy(path.text(), folder, object->bytes, problem.what());
  }
  return to.string();
}

/// source: the stamp of the file that both indices belong to. A usable index in the folder stays as
/// it is: another process may be adding to it.
void copy_index(const fs::path& from, const fs::path& to, const FileStamp& source) {
  if (IndexTable(from, source).empty() || !IndexTable(to, source).empty()) return;
  try {
    AtomicFile out(to);
    copy_whole(from, fs::file_size(from), to.parent_path(), out);
    replace_useless_index(to, source, out);
  } catch (const RunError& problem) {
    log::warn("the crop index was not copied: " + std::string(problem.what()));
  }
}

/// Logs which field is the label, once for each file.
void tell_of_label(const BetonFile& file, size_t label) {
  std::vector<std::string> integers;
  for (const auto& field : file.fields())
    if (field.type == BetonType::integer) integers.push_back(field.name);
  if (integers.size() < 2) return;
  static std::mutex lock;
  static std::set<std::string> told;
  const std::lock_guard guard(lock);
  if (told.insert(file.path().string()).second)
    log::info(file.path().string() + ": '" + file.fields()[label].name +
              "' is taken for the label: the first of its integer fields, " + first_few(integers) +
              ", none of which is called label, labels, target or class");
}

}  // namespace

std::optional<size_t> label_field(const BetonFile& file) {
  for (const char* name : {"label", "labels", "target", "class"})
    if (const auto field = file.find_field(BetonType::integer, name)) return field;
  const auto first = file.find_field(BetonType::integer);
  if (first) tell_of_label(file, *first);
  return first;
}

std::vector<std::string> number_fields(const BetonFile& file) {
  std::vector<std::string> names;
  for (const auto& field : file.fields())
    if (numbers_in(field) > 0) names.push_back(field.name);
  return names;
}

BetonSource::BetonSource(std::unique_ptr<const BetonFile> file, int64_t channels,
                         const std::vector<std::string>& targets, Unlabelled unlabelled,
                         const std::string& image)
    : file_(std::move(file)), channels_(channels), image_field_(image_field(*file_, image)) {
  if (targets.empty())
    label_field_ = unlabelled == Unlabelled::take ? label_field(*file_)
                                                  : field_of(*file_, BetonType::integer, "integer");
  for (const auto& target : targets)
    for (const size_t field : fields_of_target(*file_, target)) add_values(field);
}

void BetonSource::add_values(size_t field) {
  value_fields_.push_back(field);
  const auto& name = file_->fields()[field].name;
  const int64_t numbers = numbers_in(file_->fields()[field]);
  if (num_values() + numbers > kMostValues)
    throw UserError("targets: " + file_->path().string() + " has more than " +
                    std::to_string(kMostValues) + " numbers for each image");
  for (int64_t i = 0; i < numbers; ++i)
    value_names_.push_back(numbers == 1 ? name : name + "[" + std::to_string(i) + "]");
}

void BetonSource::read_values(int64_t index, std::span<float> values) const {
  float* to = values.data();
  for (const size_t field : value_fields_) {
    switch (file_->fields()[field].type) {
      case BetonType::real:
        *to++ = static_cast<float>(file_->real(index, field));
        break;
      case BetonType::integer:
        *to++ = static_cast<float>(file_->integer(index, field));
        break;
      default: {
        const auto& type = *plain_number(file_->fields()[field].dtype);
        const auto convert = [&](std::span<const uint8_t> bytes) {
          for (size_t at = 0; at + type.bytes <= bytes.size(); at += type.bytes)
            *to++ = type.read(&bytes[at]);
          return true;
        };
        std::vector<uint8_t> copy;
        file_->use(file_->bytes(index, field), copy, convert);
      }
    }
  }
}

std::string BetonSource::name(int64_t index) const {
  return file_->path().string() + ", sample " + std::to_string(index);
}

StoredImage BetonSource::open(int64_t index, ReadScratch& scratch) const {
  const BetonImage stored = file_->image(index, image_field_);
  StoredImage image{.jpeg = stored.jpeg, .bytes = stored.bytes, .size = stored.size};
  if (file_->remote() == nullptr) {
    image.mapping = &file_->mapping();
  } else {
    file_->read(stored.bytes, scratch.file);
    image.bytes = scratch.file;
  }
  if (image.jpeg) image.index = IndexSlot(static_cast<uint64_t>(index));
  return image;
}

int64_t BetonSource::page(int64_t index) const {
  try {
    return static_cast<int64_t>(file_->page(index, image_field_));
  } catch (const RunError&) {
    return 0;  // open() throws the reason
  }
}

std::optional<Extent> BetonSource::extent(int64_t index, bool whole_page) const {
  std::span<const uint8_t> bytes;
  try {
    bytes = file_->image(index, image_field_).bytes;
  } catch (const RunError&) {
    return std::nullopt;
  }
  const auto begin = static_cast<uint64_t>(bytes.data() - file_->mapping().bytes().data());
  if (!whole_page) return Extent{.begin = begin, .end = begin + bytes.size()};
  const uint64_t page = file_->page_size(), number = begin / page;
  return Extent{
      .begin = number * page,
      .end = std::min(std::max((number + 1) * page, begin + bytes.size()), file_->file_bytes())};
}

void BetonSource::bring(const Extent& extent) const {
  RangeCache* const remote = file_->remote();
  if (remote != nullptr && !remote->bring(extent.begin, extent.end)) return;
  file_->mapping().bring(file_->mapping().bytes().subspan(extent.begin, extent.bytes()));
}

bool BetonSource::is_remote() const {
  return file_->remote() != nullptr && !file_->remote()->is_whole();
}

std::shared_ptr<void> BetonSource::follow(Forecast forecast) const {
  RangeCache* const remote = file_->remote();
  if (remote == nullptr) return nullptr;
  return remote->follow([this, remote, forecast = std::move(forecast)](const Want& want) {
    uint32_t number = 0;
    forecast([&](int64_t sample) {
      const auto wanted = extent(sample, false);
      if (wanted) want(*remote, wanted->begin, wanted->end, number);
      ++number;
    });
  });
}

std::optional<FileStamp> BetonSource::remote_stamp() const {
  RangeCache* const remote = file_->remote();
  if (remote == nullptr) return std::nullopt;
  return FileStamp{remote->bytes(), static_cast<int64_t>(key_of(remote->version()))};
}

void BetonSource::forget(int64_t index, bool whole_page) const {
  constexpr uint64_t largest_unit = 256 << 10;  // the kernel drops whole units of pages only
  const auto bytes = extent(index, whole_page);
  if (!bytes) return;
  const auto begin = bytes->begin - std::min(bytes->begin, largest_unit);
  const auto end = std::min(bytes->end + largest_unit, file_->file_bytes());
  file_->mapping().forget(file_->mapping().bytes().subspan(begin, end - begin));
}

bool is_beton(const fs::path& path) {
  const auto ending = composer::is_remote(path.string())
                          ? fs::path(RemotePath(path.string()).name()).extension()
                          : path.extension();
  if (ending == ".beton" || ending == ".ffcv") return true;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  char head[2] = {};
  std::ifstream(path, std::ios::binary).read(head, 2);
  return head[0] == 2 && head[1] == 0;
}

std::string copy_to_folder(const std::string& path, const std::string& folder, bool with_index,
                           const RemoteOptions& remote) {
  if (is_remote(path)) {
    const RemotePath object(path);
    return download_to_folder(*open_store(object, remote), object, folder);
  }
  std::error_code error;
  fs::create_directories(folder, error);
  const fs::path to = fs::path(folder) / fs::path(path).filename();
  if (!fs::is_regular_file(path, error)) throw UserError(path + ": there is no such file");
  const uint64_t bytes = fs::file_size(path);
  const auto time = fs::last_write_time(path);
  if (fs::is_regular_file(to, error) && fs::file_size(to) == bytes &&
      fs::last_write_time(to) == time)
    return to.string();
  remove_partial_files(folder);
  try {
    AtomicFile out(to);
    copy_whole(path, bytes, folder, out);
    out.set_time(time);  // other processes recognise the file by its time
    out.commit();
  } catch (const RunError& problem) {
    throw no_copy(path, folder, bytes, problem.what());
  }
  if (with_index) copy_index(index_file_of(path), index_file_of(to), stamp_of(to));
  return to.string();
}

}  // namespace composer
