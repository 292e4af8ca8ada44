#include "composer/checkpoint/torch_file.h"

#include <caffe2/serialize/inline_container.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/files/mapped_file.h"
#include "base/files/zip_archive.h"
#include "base/log.h"
#include "base/text.h"
#include "composer/checkpoint/pickle.h"

namespace composer {
namespace {

// Keys under which training programs store the state dict, in order of preference.
constexpr std::string_view wrappers[] = {"state_dict", "model_state_dict", "model", "module", "net",
                                         "state"};
constexpr int max_wrapping = 4;

std::string text_of(const PickleGlobal& type) {
  return std::string(type.module) + "." + std::string(type.name);
}

/// The number of tensors in a dict; 0 if `value` is not a dict.
int64_t tensors_in(const PickleValue& value) {
  auto* const* dict = std::get_if<PickleDict*>(&value);
  return dict == nullptr ? 0 : std::ranges::count_if((*dict)->items, [](const auto& item) {
    return std::holds_alternative<PickledTensor*>(item.second);
  });
}

/// Finds the state dict among what a training program saved.
class StateDictSearch {
 public:
  /// The state dict; null if there is none under a usual key.
  PickleDict* find(const PickleValue& value, int depth = 0) {
    auto* const* dict = std::get_if<PickleDict*>(&value);
    if (dict == nullptr || depth == max_wrapping || !seen_.insert(*dict).second) return nullptr;
    std::vector<Found> plain, averages;
    for (const auto wrapper : wrappers)
      add(**dict, depth, plain, [&](std::string_view key) { return key == wrapper; });
    add(**dict, depth, averages, names_average);
    if (!plain.empty() || !averages.empty()) return choose(plain, averages);
    const int64_t own = tensors_in(value);
    return own > 0 && own >= most_tensors_inside(**dict) ? *dict : nullptr;
  }
  /// A text that says which of several state dicts is taken; else empty.
  const std::string& choice() const { return choice_; }

 private:
  struct Found {
    std::string key;
    PickleDict* state_dict;
  };

  void add(const PickleDict& dict, int depth, std::vector<Found>& all, const auto& is_meant) {
    for (const auto& [key, item] : dict.items)
      if (const auto* name = std::get_if<std::string_view>(&key);
          name && std::holds_alternative<PickleDict*>(item) && is_meant(*name))
        if (auto* const found = find(item, depth + 1)) all.push_back({std::string(*name), found});
  }

  /// The largest number of tensors in a dict inside `dict`; each is counted once.
  static int64_t most_tensors_inside(const PickleDict& dict) {
    int64_t most = 0;
    std::set<PickleDict*> inside;
    for (const auto& [key, item] : dict.items)
      if (auto* const* one = std::get_if<PickleDict*>(&item); one && inside.insert(*one).second)
        most = std::max(most, tensors_in(item));
    return most;
  }

  /// Prefers an average, which evaluations use, unless it lacks tensors.
  PickleDict* choose(const std::vector<Found>& plain, const std::vector<Found>& averages) {
    const int64_t all = plain.empty() ? 0 : tensors_in(plain[0].state_dict);
    const auto whole = std::ranges::find_if(
        averages, [&](const Found& average) { return tensors_in(average.state_dict) >= all; });
    const bool averaged = whole != averages.end();
    const auto& taken = averaged ? *whole : plain[0];
    std::vector<std::string> keys;
    for (const auto* found : {&plain, &averages})
      for (const auto& [key, state_dict] : *found) keys.push_back("'" + key + "'");
    if (keys.size() > 1)
      choice_ = "holds state dicts under " + first_few(keys) + "; '" + taken.key + "' is taken" +
                (averaged ? ", the average, as for evaluation" : "");
    return taken.state_dict;
  }

  std::set<PickleDict*> seen_;
  std::string choice_;
};

[[noreturn]] void fail_without_state_dict(const PickleValue& value) {
  const auto type_of = [](const PickleValue& held) {
    const auto* opaque = std::get_if<PickleOpaque>(&held);
    const auto* global = std::get_if<PickleGlobal>(&held);
    return opaque != nullptr ? opaque->type : global != nullptr ? *global : PickleGlobal{};
  };
  if (const auto type = type_of(value); !type.name.empty())
    throw FormatError("holds an object of type " + text_of(type) +
                      "; only state dicts can be read: save model.state_dict()");
  constexpr size_t described = 10;
  std::vector<std::string> keys;
  if (auto* const* dict = std::get_if<PickleDict*>(&value))
    for (const auto& [key, item] : (*dict)->items) {
      const auto* name = std::get_if<std::string_view>(&key);
      if (name == nullptr) continue;
      const auto type = type_of(item);
      keys.push_back("'" + std::string(*name) + "'" +
                     (keys.size() < described && tensors_in(item) > 0 ? " (a state dict)"
                      : type.name.empty()                             ? ""
                                          : " (an object of type " + text_of(type) + ")"));
    }
  if (keys.empty()) throw FormatError("holds no state dict");
  throw FormatError("holds no state dict under " +
                    joined({std::begin(wrappers), std::end(wrappers)}) + "; its keys are " +
                    first_few(std::move(keys)) +
                    "; save only the right state dict, or put it under state_dict");
}

// Elements of the tensor. Throws unless every one lies in the storage, and there are no more than
// the storage has: a tensor of 2^40 elements with stride 0 would be too much of a good thing.
int64_t checked_count(const PickledTensor& tensor, const std::string& name) {
  const auto fail = [&] { return FormatError("tensor '" + name + "' does not fit its storage"); };
  const auto element = static_cast<int64_t>(at::elementSize(tensor.type));
  const int64_t available = static_cast<int64_t>(tensor.storage.size()) / element;
  if (tensor.sizes.size() != tensor.strides.size() || tensor.offset < 0) throw fail();
  int64_t count = 1, last = tensor.offset;
  bool empty = false;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    const int64_t size = tensor.sizes[i], stride = tensor.strides[i];
    int64_t reach = 0;
    if (size < 0 || stride < 0) throw fail();
    empty |= size == 0;
    if (__builtin_mul_overflow(count, std::max<int64_t>(size, 1), &count) ||
        __builtin_mul_overflow(std::max<int64_t>(size, 1) - 1, stride, &reach) ||
        __builtin_add_overflow(last, reach, &last))
      throw fail();
  }
  if (empty) {
    if (count > INT64_MAX / element) throw fail();
    return 0;
  }
  if (last >= available || count > available) throw fail();
  return count;
}

// Copies the tensor as bytes, since the file need not align them.
at::Tensor copy(const PickledTensor& tensor, int64_t count) {
  if (count == 0) return at::empty(tensor.sizes, tensor.type);
  const auto element = static_cast<int64_t>(at::elementSize(tensor.type));
  auto sizes = tensor.sizes, strides = tensor.strides;
  for (size_t i = 0; i < sizes.size(); ++i) strides[i] = sizes[i] == 1 ? 0 : strides[i] * element;
  sizes.push_back(element), strides.push_back(1);
  const auto* first = tensor.storage.data() + tensor.offset * element;
  const auto bytes =
      at::from_blob(const_cast<uint8_t*>(first), sizes, strides, at::dtype(at::kByte))
          .clone(at::MemoryFormat::Contiguous);
  // A bool with any other byte than 0 and 1 is undefined behaviour.
  if (tensor.type == at::kBool) return bytes.ne(0).squeeze(-1);
  return bytes.view(tensor.type).squeeze(-1);
}

TensorMap copy_all(const PickleDict& state_dict, size_t file_size) {
  TensorMap tensors;
  // Tied weights share bytes: the limit is above the file's size.
  uint64_t left = 16 * static_cast<uint64_t>(file_size);
  for (const auto& [key, value] : state_dict.items) {
    const auto* name = std::get_if<std::string_view>(&key);
    auto* const* tensor = std::get_if<PickledTensor*>(&value);
    const auto* opaque = std::get_if<PickleOpaque>(&value);
    if (name && opaque && opaque->type.name.starts_with("_rebuild_"))
      throw FormatError("tensor '" + std::string(*name) +
                        "' is of a kind that is not read: " + text_of(opaque->type));
    if (name == nullptr || tensor == nullptr) continue;
    const int64_t count = checked_count(**tensor, std::string(*name));
    const uint64_t bytes = static_cast<uint64_t>(count) * at::elementSize((*tensor)->type);
    if (bytes > left) throw FormatError("its tensors overlap each other");
    left -= bytes;
    tensors.insert_or_assign(std::string(*name), copy(**tensor, count));
  }
  return tensors;
}

void check_kind(std::span<const uint8_t> bytes) {
  const auto starts_with = [&](std::initializer_list<uint8_t> magic) {
    return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
  };
  if (starts_with({'P', 'K'})) return;
  if (starts_with({0x80, 2}))
    throw FormatError(
        "written by PyTorch before 1.6; load it with a newer PyTorch and torch.save it again");
  throw FormatError(
      "not a PyTorch file: it does not begin as the zip archives that torch.save writes");
}

TensorMap read(std::span<const uint8_t> bytes, std::string& choice) {
  check_kind(bytes);
  const ZipArchive archive(bytes);
  const auto pickle_name = archive.find_name("data.pkl");
  if (!pickle_name) throw FormatError("not a PyTorch file: the zip archive holds no data.pkl");
  const auto folder = pickle_name->substr(0, pickle_name->size() - std::strlen("data.pkl"));
  if (archive.find(folder + "constants.pkl"))
    throw FormatError("a TorchScript program; save model.state_dict() instead");
  if (const auto order = archive.find(folder + "byteorder");
      order && ByteReader(*order).text(order->size()) != "little")
    throw FormatError("written on a big-endian machine, which is not supported");

  Unpickler unpickler(*archive.find(*pickle_name), [&](std::string_view key) {
    const auto storage = archive.find(folder + "data/" + std::string(key));
    if (!storage) throw FormatError("a tensor's bytes are missing in the zip archive");
    return *storage;
  });
  const auto value = unpickler.run();
  StateDictSearch search;
  const auto* state_dict = search.find(value);
  if (state_dict == nullptr) fail_without_state_dict(value);
  choice = search.choice();
  return copy_all(*state_dict, bytes.size());
}

/// Writes the pickle of a dict of tensors, in protocol 2.
class StateDictPickler {
 public:
  StateDictPickler() { text_ = "\x80\x02}("; }

  /// key: the key of the tensor's bytes in the archive.
  void add(const std::string& name, const at::Tensor& tensor, const std::string& key) {
    const auto storage = storage_class(tensor.scalar_type());
    if (storage.empty())
      throw UserError("a PyTorch file cannot hold '" + name + "' of type " +
                      at::toString(tensor.scalar_type()));
    put(name);
    text_ += "ctorch._utils\n_rebuild_tensor_v2\n((";
    put("storage");
    text_ += "ctorch\n" + std::string(storage) + "\n";
    put(key);
    put("cpu");
    put(tensor.numel());
    text_ += "tQ";
    put(int64_t{0});
    put(tensor.sizes());
    put(tensor.strides());
    text_ +=
        "\x89"
        "ccollections\nOrderedDict\n)RtR";
  }

  std::string end() && { return std::move(text_) + "u."; }

 private:
  void put(const std::string& text) {
    text_ += 'X';
    put_bytes(text.size(), 4);
    text_ += text;
  }
  void put(int64_t number) {
    text_ += "\x8a\x08";
    put_bytes(static_cast<uint64_t>(number), 8);
  }
  void put(at::IntArrayRef numbers) {
    text_ += '(';
    for (const int64_t number : numbers) put(number);
    text_ += 't';
  }
  /// Little-endian.
  void put_bytes(uint64_t number, int count) {
    for (int i = 0; i < count; ++i) text_ += static_cast<char>(number >> 8 * i & 0xff);
  }

  std::string text_;
};

}  // namespace

bool names_average(std::string_view name) {
  std::string text = lower_case(std::string(name));
  std::ranges::replace_if(
      text, [](char c) { return c == '.' || c == '-' || c == '_'; }, ' ');
  std::istringstream words(text);
  return std::any_of(std::istream_iterator<std::string>(words), {}, [](const auto& word) {
    return word == "ema" || word == "averaged" || word == "average" || word == "avg" ||
           word == "swa" || word == "shadow";
  });
}

TensorMap read_torch_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  try {
    std::string choice;
    auto tensors = file.use_all([&](auto bytes) { return read(bytes, choice); });
    if (!choice.empty()) log::info_once(path.string() + ": " + choice);
    return tensors;
  } catch (const FormatError& error) {
    throw UserError(path.string() + ": " + error.what());
  }
}

void write_torch_file(const std::filesystem::path& path, const TensorMap& tensors) {
  StateDictPickler pickler;
  std::vector<at::Tensor> plain;
  for (const auto& [name, tensor] : tensors) {
    plain.push_back(tensor.detach().to(at::kCPU).contiguous());
    pickler.add(name, plain.back(), std::to_string(plain.size() - 1));
  }
  const auto pickle = std::move(pickler).end();
  AtomicFile file(path);
  // The archive's destructor writes its end, where an exception of the callback would end the
  // process.
  std::exception_ptr problem;
  const auto write = [&](const void* bytes, size_t size) {
    try {
      if (!problem) file.write({static_cast<const uint8_t*>(bytes), size});
    } catch (...) {
      problem = std::current_exception();
    }
    return size;
  };
  {
    caffe2::serialize::PyTorchStreamWriter archive(write);
    archive.writeRecord("data.pkl", pickle.data(), pickle.size());
    archive.writeRecord("byteorder", "little", 6);
    for (size_t i = 0; i < plain.size() && !problem; ++i)
      archive.writeRecord("data/" + std::to_string(i), plain[i].const_data_ptr(),
                          plain[i].nbytes());
    archive.writeEndOfFile();
  }
  if (problem) std::rethrow_exception(problem);
  file.commit_to_disk();
}

}  // namespace composer
