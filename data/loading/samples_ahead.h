// Reading ahead where each sample's bytes come by themselves, and are handed over.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "data/loading/read_ahead.h"
#include "data/loading/reader_threads.h"
#include "data/loading/sample_cursor.h"

namespace composer {

/// A sample that no reader has begun is read by the thread that wants it; one that is being read is
/// waited for; one that is there is taken without a copy. Readers begin where the threads' own
/// reads are slow, and end where theirs are quick; of a remote source they always read.
class SamplesAhead final : public ReadAhead {
 public:
  SamplesAhead(const ReadAheadPlan& plan, const Sampler& sampler, const LoaderOptions& options,
               int64_t batches, bool all_epochs);

  int64_t restart(int64_t epoch, int64_t batch) override;
  void ask(int64_t epoch) override;
  void rest() override;
  void leave() override { readers_.leave(); }
  void begin(const Task& task) override;
  void bring(const Task& task, int64_t place, int64_t sample, ReadScratch& scratch) override;
  void end(const Task& task, Visit& visit) override;

 private:
  using Lock = ReaderThreads::Lock;
  using Bytes = std::vector<uint8_t>;

  /// A sample that readers have to do with.
  struct Slot {
    enum class State { unread, reading, there, failed };
    int64_t sample = 0;
    State state = State::unread;
    Bytes bytes{};  ///< once there
    FileStamp stamp{};
  };
  /// A reader's share of held_.
  struct Room {
    uint64_t held = 0;
    uint64_t lacked = 0;  ///< bytes of a sample that did not fit, but will
  };
  using Slots = std::map<int64_t, Slot>;  ///< by number in the sequence

  bool always() const;
  void read_here(int64_t sample, ReadScratch& scratch);
  bool take(const Task& task, int64_t place, ReadScratch& scratch);
  void offer_rest(const Task& task, int64_t place);
  double waited(double seconds, size_t bytes) const;

  // With the lock held:
  void set_active(bool active);
  void settle();
  Slots::iterator drop(Slots::iterator slot);
  bool is_usual(const Bytes& bytes) const;
  void give_back(Bytes bytes);
  Bytes take_free();
  bool has_room() const;
  void put_back(Slots::iterator slot);
  Slots::iterator claim();
  bool read_next(Lock& lock);
  bool read(int64_t sample, Bytes& bytes, FileStamp& stamp, Room& room);
  bool make_room(uint64_t bytes, Room& room);

  const Source& source_;
  const ReadAheadLimits limits_;
  const bool cold_;
  SampleCursor walk_;
  std::atomic<float> own_wait_{0};      ///< seconds a read of the loader's threads, of late
  std::atomic<bool> concerned_{false};  ///< whether active_, or there are slots

  std::mutex lock_;
  std::condition_variable arrived_;
  bool active_ = false;  ///< the readers read
  Slots slots_;
  std::set<int64_t> unread_;   ///< of the slots
  uint64_t held_ = 0;          ///< bytes of slots, and those that readers have made room for
  uint64_t usual_ = 64 << 10;  ///< bytes of a sample, of late
  double wait_ = 0;            ///< seconds a read of the readers, of late
  int64_t reads_ = 0;          ///< since they began
  std::vector<Bytes> free_;
  uint64_t free_bytes_ = 0;
  bool resting_ = false;  ///< nothing is kept in free_
  ReaderThreads readers_;
};

}  // namespace composer
