#include "python/composer_loader.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/text.h"
#include "base/url_secrets.h"
#include "base/version.h"
#include "python/loader_keys.h"
#include "python/messages.h"

namespace composer {
namespace {

using nlohmann::ordered_json;

/// Memory of a stream's batches. It lives as long as its batches.
class Memory : public std::enable_shared_from_this<Memory> {
 public:
  /// A block of the caller's.
  struct Given {
    void* data = nullptr;
    int64_t bytes = 0, name = -1;
  };

  explicit Memory(size_t kept) { free_.reserve(kept); }
  ~Memory() { clear(); }

  /// In given memory that is large enough, or else in a block that was free or is new.
  Array reused(const std::vector<int64_t>& shape, ElementType type) {
    const int64_t bytes = bytes_of(shape, type);
    const auto owner = std::make_shared<Owner>(shared_from_this());
    if (take_given(bytes, owner->given))
      lent_to(owner);
    else
      owner->block = take(static_cast<size_t>(bytes));
    return {owner->given.data != nullptr ? owner->given.data : owner->block.data, shape, type,
            owner};
  }

  static Array fresh(const std::vector<int64_t>& shape, ElementType type) {
    void* const data = allocate(static_cast<size_t>(bytes_of(shape, type)));
    return {data, shape, type, {data, std::free}};
  }

  void clear() {
    const std::lock_guard guard(lock_);
    for (const Block& block : free_) std::free(block.data);
    free_.clear();
  }

  void give(const Given& given) {
    const std::lock_guard guard(lock_);
    given_.push_back(given);
  }

  /// The name of the given memory of this owner, which is the caller's from now on; -1: none.
  int64_t hand_over(const std::shared_ptr<void>& owner) {
    const std::lock_guard guard(lock_);
    const auto one = std::ranges::find(lent_, owner.get(), [](Owner* lent) { return lent; });
    if (one == lent_.end()) return -1;
    const int64_t name = (*one)->given.name;
    (*one)->given = {};
    lent_.erase(one);
    return name;
  }

 private:
  struct Block {
    void* data = nullptr;
    size_t bytes = 0;
  };

  /// Of an array in a block, or in given memory. What nobody was handed is kept for another array.
  struct Owner {
    explicit Owner(std::shared_ptr<Memory> of) : memory(std::move(of)) {}
    ~Owner() {
      if (block.data != nullptr) memory->put(block);
      if (given.data != nullptr) memory->take_back(*this);
    }
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;

    const std::shared_ptr<Memory> memory;
    Block block;
    Given given;
  };

  static int64_t bytes_of(const std::vector<int64_t>& shape, ElementType type) {
    int64_t bytes = size_of(type);
    for (const int64_t one : shape) bytes *= one;
    return bytes;
  }

  static void* allocate(size_t bytes) {
    constexpr size_t kAlignment = 64;
    void* const data =
        std::aligned_alloc(kAlignment, (bytes + kAlignment) / kAlignment * kAlignment);
    if (data == nullptr) throw std::bad_alloc();
    return data;
  }

  bool take_given(int64_t bytes, Given& given) {
    const std::lock_guard guard(lock_);
    const auto one =
        std::ranges::find_if(given_, [&](const Given& block) { return block.bytes >= bytes; });
    if (one == given_.end()) return false;
    given = *one;
    given_.erase(one);
    return true;
  }

  void lent_to(const std::shared_ptr<Owner>& owner) {
    const std::lock_guard guard(lock_);
    lent_.push_back(owner.get());
  }

  /// A batch that nobody wanted.
  void take_back(Owner& owner) noexcept {
    const std::lock_guard guard(lock_);
    std::erase(lent_, &owner);
    given_.push_back(owner.given);
  }

  Block take(size_t bytes) {
    const std::lock_guard guard(lock_);
    const auto fitting =
        std::ranges::find_if(free_, [&](const Block& block) { return block.bytes >= bytes; });
    if (fitting != free_.end()) {
      const Block block = *fitting;
      free_.erase(fitting);
      return block;
    }
    if (!free_.empty()) {  // all blocks are too small: one makes room
      std::free(free_.back().data);
      free_.pop_back();
    }
    return {allocate(bytes), bytes};
  }

  void put(const Block& block) {
    const std::lock_guard guard(lock_);
    if (free_.size() < free_.capacity())
      free_.push_back(block);
    else
      std::free(block.data);
  }

  std::mutex lock_;
  std::vector<Block> free_;  // never more than its capacity
  std::vector<Given> given_;
  std::vector<Owner*> lent_;  // owners of given memory that is not handed over
};

class MemoryArrays final : public ArrayAllocator {
 public:
  explicit MemoryArrays(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}

  Array reused(const std::vector<int64_t>& shape, ElementType type) override {
    return memory_->reused(shape, type);
  }
  Array fresh(const std::vector<int64_t>& shape, ElementType type) override {
    return Memory::fresh(shape, type);
  }
  void clear() override { memory_->clear(); }

 private:
  const std::shared_ptr<Memory> memory_;
};

/// Sizes of epochs, which the loader's threads ask for.
class EpochSizes {
 public:
  void set(int64_t epoch, ImageSize size) {
    const std::lock_guard guard(lock_);
    sizes_[epoch] = size;
  }
  ImageSize of(int64_t epoch, ImageSize usual) const {
    const std::lock_guard guard(lock_);
    const auto later = sizes_.upper_bound(epoch);
    return later == sizes_.begin() ? usual : std::prev(later)->second;
  }

 private:
  mutable std::mutex lock_;
  std::map<int64_t, ImageSize> sizes_;
};

thread_local composer_error last_error{0, "", "", -1};
thread_local std::string last_message, last_path;

void set_error(int32_t kind, const std::string& message, const std::string& path = {},
               int64_t index = -1) try {
  last_message = without_secrets(message), last_path = without_secrets(path);
  last_error = {kind, last_message.c_str(), last_path.c_str(), index};
} catch (const std::bad_alloc&) {
  last_error = {COMPOSER_NO_MEMORY, "there is not enough memory", "", -1};
}

/// Runs work(); what it throws becomes the thread's last error, and `failed` the result.
template <class Result, class Work>
Result guarded(Result failed, Work&& work) {
  try {
    return work();
  } catch (const ArgumentError& error) {
    set_error(COMPOSER_BAD_ARGUMENT, error.what());
  } catch (const BadSample& bad) {
    set_error(COMPOSER_BAD_SAMPLE, bad.name() + ": " + bad.reason(), bad.name(), bad.index());
  } catch (const NoFileError& error) {
    set_error(COMPOSER_NO_FILE, error.what());
  } catch (const UserError& error) {
    set_error(COMPOSER_BAD_FILE, error.what());
  } catch (const RemoteError& error) {
    set_error(COMPOSER_BAD_FILE, error.what());
  } catch (const std::bad_alloc&) {
    set_error(COMPOSER_NO_MEMORY, "there is not enough memory for a batch");
  } catch (const std::exception& error) {
    set_error(COMPOSER_OTHER_ERROR, error.what());
  }
  return failed;
}

std::shared_ptr<GivenOrders> orders_of(const LoaderKeys& keys) {
  if (keys.order != "given") return nullptr;
  return std::make_shared<GivenOrders>(keys.positions, keys.repeats, keys.whole_pages);
}

int32_t type_of(ElementType type) {
  switch (type) {
    case ElementType::float32:
      return COMPOSER_FLOAT32;
    case ElementType::bfloat16:
      return COMPOSER_BFLOAT16;
    case ElementType::float16:
      return COMPOSER_FLOAT16;
    case ElementType::uint8:
    case ElementType::int64:
      break;
  }
  return COMPOSER_UINT8;
}

}  // namespace
}  // namespace composer

using namespace composer;

struct composer_stream {
  explicit composer_stream(std::shared_ptr<const OpenedLoader> opened)
      : set(std::move(opened)),
        orders(orders_of(set->keys)),
        memory(std::make_shared<Memory>(static_cast<size_t>(set->common.prefetch_factor) + 3)),
        loader(make_stream_loader(*set, orders, std::make_unique<MemoryArrays>(memory))) {}

  const std::shared_ptr<const OpenedLoader> set;
  const std::shared_ptr<GivenOrders> orders;  ///< null: the library makes them
  const std::shared_ptr<Memory> memory;
  const std::shared_ptr<EpochSizes> sizes = std::make_shared<EpochSizes>();
  const std::unique_ptr<BatchLoader> loader;
};

struct composer_loader {
  std::shared_ptr<const OpenedLoader> set;
  std::mutex lock;
  std::unique_ptr<composer_stream> first;  ///< the stream that opening checked; null: handed out
  std::string description;
};

namespace {

struct PackedBytes : composer_image {
  PackedImage packed;
};

/// Tells which samples the batches have, of which data: equal for equal ones.
std::string selection_of(const OpenedLoader& set) {
  const auto& keys = set.keys;
  std::ostringstream text;
  text << static_cast<int>(set.images.order) << ' ' << set.images.drop_last << ' '
       << set.images.views << ' ' << keys.rows;
  if (set.common.split)
    text << ' ' << set.common.split->val << ' ' << set.common.split->seed << ' '
         << set.common.split->evaluation;
  return std::to_string(fnv1a(text.str()));
}

std::string description_of(const OpenedLoader& set, const BatchLoader& loader) {
  const ImageSize size = loader.image_size();
  ordered_json facts{{"num_samples", loader.num_samples()},
                     {"batches", loader.batches_per_epoch()},
                     {"num_classes", nullptr},
                     {"class_names", set.class_names},
                     {"channels", set.source->channels()},
                     {"size", {size.height, size.width}},
                     {"batch_size", set.common.batch_size},
                     {"rank", set.place.rank},
                     {"world_size", set.place.size},
                     {"seed", set.common.seed},
                     {"drop_last", set.images.drop_last},
                     {"num_workers", set.common.num_workers},
                     {"prefetch_factor", set.common.prefetch_factor},
                     {"digest", loader.digest()},
                     {"selection", selection_of(set)}};
  if (set.num_classes) facts["num_classes"] = *set.num_classes;
  return facts.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace

const char* composer_loader_version(void) { return composer::version; }

const composer_error* composer_loader_error(void) { return &last_error; }

const char* composer_loader_messages(void) try {
  thread_local std::string text;
  const auto lines = take_messages();
  if (lines.empty()) return nullptr;
  ordered_json list = ordered_json::array();
  for (const auto& [level, line] : lines) list.push_back({level, line});
  text = list.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  return text.c_str();
} catch (const std::bad_alloc&) {
  return nullptr;
}

composer_loader* composer_loader_open(const char* options) {
  return guarded<composer_loader*>(nullptr, [&] {
    auto opened = std::make_unique<composer_loader>();
    opened->set = std::make_shared<const OpenedLoader>(open_loader_set(options));
    opened->first = std::make_unique<composer_stream>(opened->set);
    opened->description = description_of(*opened->set, *opened->first->loader);
    return opened.release();
  });
}

const char* composer_loader_describe(const composer_loader* set) {
  return set->description.c_str();
}

const char* composer_loader_sample(const composer_loader* set, int64_t index) {
  return guarded<const char*>(nullptr, [&] {
    const int64_t samples = set->set->source->size();
    if (index < 0 || index >= samples)
      throw ArgumentError("index: " + std::to_string(index) + " is no sample of " +
                          std::to_string(samples));
    thread_local std::string name;
    name = without_secrets(set->set->source->name(index));
    return name.c_str();
  });
}

composer_stream* composer_loader_stream(composer_loader* set) {
  return guarded<composer_stream*>(nullptr, [&] {
    const std::lock_guard guard(set->lock);
    if (set->first) return set->first.release();
    return new composer_stream(set->set);
  });
}

void composer_loader_close(composer_loader* set) { delete set; }

int composer_stream_size(composer_stream* stream, int64_t epoch, int64_t height, int64_t width) {
  return guarded<int>(COMPOSER_FAILED, [&] {
    constexpr int64_t kMost = 4096;
    for (const int64_t side : {height, width})
      if (side < 1 || side > kMost)
        throw ArgumentError("size: must be 1 to 4096 pixels, got " + std::to_string(side) +
                            " for epoch " + std::to_string(epoch));
    if (!stream->set->images.training)
      throw ArgumentError("size: only training images change it between epochs");
    stream->sizes->set(epoch, {height, width});
    return COMPOSER_BATCH;
  });
}

int composer_stream_order(composer_stream* stream, int64_t epoch, const int64_t* samples,
                          int64_t count) {
  return guarded<int>(COMPOSER_FAILED, [&] {
    if (!stream->orders) throw ArgumentError("order: is not \"given\"");
    if (count != stream->orders->positions)
      throw ArgumentError("order: epoch " + std::to_string(epoch) + " has " +
                          quantity(count, "sample") + "; the first had " +
                          std::to_string(stream->orders->positions));
    const int64_t size = stream->set->source->size();
    std::vector<int64_t> order(samples, samples + count);
    for (const int64_t sample : order)
      if (sample < 0 || sample >= size)
        throw ArgumentError("order: there is no sample " + std::to_string(sample) + " of " +
                            std::to_string(size));
    stream->orders->give(epoch, std::move(order));
    return COMPOSER_BATCH;
  });
}

int composer_stream_start(composer_stream* stream, int64_t epoch, int64_t batch) {
  return guarded<int>(COMPOSER_FAILED, [&] {
    stream->loader->start(epoch, batch,
                          [sizes = stream->sizes, usual = stream->loader->image_size(),
                           batches = stream->loader->batches_per_epoch()](int64_t number) {
                            return sizes->of(number / batches, usual);
                          });
    return COMPOSER_BATCH;
  });
}

int composer_stream_next(composer_stream* stream, int64_t milliseconds, composer_batch* batch) {
  return guarded<int>(COMPOSER_FAILED, [&] {
    if (milliseconds >= 0 && !stream->loader->ready_within(std::chrono::milliseconds(milliseconds)))
      return COMPOSER_WAIT;
    auto next = stream->loader->next();
    if (!next) return COMPOSER_END;
    auto arrays = std::make_unique<BatchArrays>(*std::move(next));
    *batch = {.images = arrays->images.data,
              .shape = {},
              .type = type_of(arrays->images.type),
              .given = stream->memory->hand_over(arrays->images.owner),
              .classes = arrays->classes.as<int64_t>(),
              .values = arrays->values.as<float>(),
              .num_values = arrays->values.defined() ? arrays->values.shape[1] : 0,
              .samples = arrays->indices.as<int64_t>(),
              .memory = nullptr};
    std::ranges::copy(arrays->images.shape, batch->shape);
    batch->memory = arrays.release();
    return COMPOSER_BATCH;
  });
}

void composer_stream_give(composer_stream* stream, void* memory, int64_t bytes, int64_t name) {
  guarded<int>(COMPOSER_FAILED, [&] {
    stream->memory->give({memory, bytes, name});
    return COMPOSER_BATCH;
  });
}

void composer_stream_close(composer_stream* stream) { delete stream; }

composer_image* composer_image_pack(const char* options, const uint8_t* pixels, int64_t height,
                                    int64_t width, int64_t row) {
  return guarded<composer_image*>(nullptr, [&] {
    auto packed = std::make_unique<PackedBytes>();
    const ImageSize size{height, width};
    const StoredImage image{.bytes = {pixels, static_cast<size_t>(height * width * 3)},
                            .size = size};
    ReadScratch scratch;
    try {
      packed->packed = ImagePacker(pack_options(options)).pack(image, row, scratch);
    } catch (const RunError& error) {
      throw ArgumentError(error.what());
    }
    const PackedImage& result = packed->packed;
    static_cast<composer_image&>(*packed) = {
        .bytes = result.bytes.data(),
        .size = std::ssize(result.bytes),
        .height = result.size.height,
        .width = result.size.width,
        .is_jpeg = result.is_jpeg(),
    };
    return packed.release();
  });
}

void composer_image_release(composer_image* image) { delete static_cast<PackedBytes*>(image); }

void composer_batch_release(composer_batch* batch) {
  delete static_cast<BatchArrays*>(batch->memory);
  batch->memory = nullptr;
}
