// Reading ahead where the samples lie in files that are mapped: bytes are brought to where they
// lie.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <vector>

#include "data/loading/read_ahead.h"
#include "data/loading/reader_threads.h"
#include "data/loading/sample_cursor.h"

namespace composer {

/// Sorts the extents, and joins those that touch or are less than `gap` apart. None is then longer
/// than `most`.
std::vector<Extent> merged(std::vector<Extent> extents, uint64_t gap, uint64_t most);

/// Readers begin where a loader's thread had to wait for a page of memory, and end where theirs are
/// there; of a remote source they always read. Nobody waits for them: who is first at a page has
/// the system read it.
class RangesAhead final : public ReadAhead {
 public:
  RangesAhead(const ReadAheadPlan& plan, const Sampler& sampler, const LoaderOptions& options,
              int64_t batches, bool all_epochs);

  int64_t restart(int64_t epoch, int64_t batch) override;
  void ask(int64_t epoch) override;
  void leave() override { readers_.leave(); }
  void begin(const Task& task) override;
  void bring(const Task& task, int64_t place, int64_t sample, ReadScratch& scratch) override;
  void end(const Task& task, Visit& visit) override;

 private:
  using Lock = ReaderThreads::Lock;

  /// Consecutive samples whose pieces were planned.
  struct Stretch {
    int64_t begin, end;  ///< in the sequence
    uint64_t bytes;
  };

  /// To be read, for a stretch that ends there.
  struct Piece {
    Extent extent;
    int64_t end;
  };

  bool always() const;
  void pass(const Task& task);
  void missed_a_page();
  void help_lone_reader();

  // With the lock held:
  void forget_plan();
  bool is_full();
  void plan_sample(Lock& lock, int64_t sample, uint64_t& bytes, std::vector<Extent>& extents);
  bool plan_stretch(Lock& lock);
  bool plan_more(Lock& lock);
  bool is_new_page(const Extent& page);
  bool read_next(Lock& lock);
  bool comes_quickly() const;
  void note(double seconds, uint64_t bytes);

  const Source& source_;
  const ReadAheadPlan plan_;
  const bool helps_;        ///< with samples of tasks that have begun
  const uint64_t horizon_;  ///< bytes of planned samples
  SampleCursor walk_;
  std::atomic<bool> active_{false};     ///< the readers read
  std::atomic<int64_t> wake_at_;        ///< number of the sample at which there is more to plan
  std::atomic<double> alone_since_{0};  ///< one reader reads while others idle; 0: none does
  std::atomic<int64_t> planned_begin_{0}, planned_end_{0};

  std::mutex lock_;
  std::deque<Stretch> stretches_;  ///< that are not passed
  std::deque<Piece> pieces_;       ///< of those
  std::deque<Extent> pages_;       ///< the last ones that were planned
  bool planning_ = false;          ///< a reader is at it
  bool hurried_ = false;           ///< so were others, who had to wait for that
  int64_t plans_ = 0;              ///< that were forgotten
  double wait_ = 0;                ///< seconds a piece, of late
  int64_t reads_ = 0;              ///< since the readers began
  ReaderThreads readers_;
};

}  // namespace composer
