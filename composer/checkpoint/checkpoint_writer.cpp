#include "composer/checkpoint/checkpoint_writer.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <cstring>
#include <exception>
#include <future>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/several_threads.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "composer/checkpoint/safetensors.h"
#include "composer/checkpoint/weights.h"
#include "nn/device/one_thread.h"
#include "nn/profiling/thread_ranges.h"

namespace composer {
namespace {

/// Leaves the cores to training: no parallel computation in this thread.
void stay_on_one_thread_with_a_name() {
  compute_alone();
  set_thread_name("checkpoint");
}

namespace fs = std::filesystem;
using nlohmann::ordered_json;

class NotFinite : public RunError {
 public:
  using RunError::RunError;
};

void check_finite(const TensorMap& model, int64_t batch) {
  const auto names = not_finite(model);
  if (names.empty()) return;
  throw NotFinite("weights are not finite (" + names.front() +
                  (names.size() > 1 ? " and " + std::to_string(names.size() - 1) + " more" : "") +
                  ") at batch " + std::to_string(batch) + ": no checkpoint is made of them");
}

/// The result of the task, or its error: {"files": ...} or {"problem": ..., "not_finite": ...}.
ordered_json report_of(std::future<ordered_json>& task) {
  try {
    return {{"files", task.get()}};
  } catch (const NotFinite& error) {
    return {{"problem", error.what()}, {"not_finite", true}};
  } catch (const fs::filesystem_error& error) {
    return {{"problem", "the checkpoint cannot be written: " + std::string(error.what())}};
  } catch (const std::exception& error) {
    return {{"problem", error.what()}};
  }
}

std::string problem_in(const ordered_json& report) { return report.value("problem", ""); }

bool fits(const at::Tensor& kept, const at::Tensor& tensor) {
  return kept.defined() && kept.scalar_type() == tensor.scalar_type() &&
         kept.sizes() == tensor.sizes() && kept.strides() == tensor.strides();
}

/// The bytes of a tensor, at [begin, end) of the bytes of all tensors.
struct Piece {
  std::byte* to;
  const std::byte* from;
  int64_t begin, end;
};

/// Copies all pieces in one parallel loop: waiting for all threads after each tensor would take
/// longer than most copies.
void copy(const std::vector<Piece>& pieces) {
  if (pieces.empty()) return;
  at::parallel_for(0, pieces.back().end, /*grain_size=*/1 << 20, [&](int64_t begin, int64_t end) {
    auto piece = std::ranges::upper_bound(pieces, begin, {}, &Piece::end);
    for (; piece != pieces.end() && piece->begin < end; ++piece) {
      const auto first = std::max(begin, piece->begin), last = std::min(end, piece->end);
      const auto offset = first - piece->begin;
      std::memcpy(piece->to + offset, piece->from + offset, static_cast<size_t>(last - first));
    }
  });
}

}  // namespace

/// Copies of tensors in host memory, which can be read while the originals change. The memory is
/// reused, and pinned for tensors on a GPU.
class CheckpointWriter::HostCopies {
 public:
  /// Replaces each tensor by a copy. Overwrites the previous copies. Copies from a GPU are complete
  /// once wait() has returned.
  void take(const std::vector<at::Tensor*>& tensors);
  /// Waits for copies from a GPU. Any thread may call it.
  void wait() const;

 private:
  std::vector<at::Tensor> kept_;
  std::shared_ptr<void> copied_;  ///< a device event, or null
};

void CheckpointWriter::HostCopies::take(const std::vector<at::Tensor*>& tensors) {
  const at::NoGradGuard no_grad;
  kept_.resize(tensors.size());
  copied_ = nullptr;
  std::optional<at::Device> device;
  std::vector<Piece> pieces;
  int64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = *tensors[i];
    const bool here = tensor.is_cpu();
    at::Tensor& kept = kept_[i];
    if (!fits(kept, tensor))
      kept = at::empty_like(tensor, tensor.options().device(at::kCPU).pinned_memory(!here));
    if (!here) device = tensor.device();
    if (here && tensor.is_non_overlapping_and_dense() && tensor.numel() > 0) {
      const auto size = static_cast<int64_t>(tensor.nbytes());
      pieces.push_back({static_cast<std::byte*>(kept.mutable_data_ptr()),
                        static_cast<const std::byte*>(tensor.const_data_ptr()), bytes,
                        bytes + size});
      bytes += size;
    } else {
      kept.copy_(tensor, /*non_blocking=*/true);
    }
  }
  copy(pieces);
  for (size_t i = 0; i < tensors.size(); ++i) *tensors[i] = kept_[i];
  if (!device) return;
  const auto event = std::make_shared<c10::Event>(device->type());
  event->record(c10::impl::VirtualGuardImpl(device->type()).getStream(*device));
  copied_ = event;
}

void CheckpointWriter::HostCopies::wait() const {
  if (copied_) static_cast<c10::Event*>(copied_.get())->synchronize();
}

struct CheckpointWriter::Job {
  Job(const fs::path& folder, const Checkpoint& checkpoint, Plan plan)
      : name(checkpoint_name(checkpoint.time)),
        batch(checkpoint.time.batch),
        plan(plan),
        folder(folder, name) {}

  /// Writes the files of this rank, and returns their checksums for the manifest. Writes nothing if
  /// a complete checkpoint is kept.
  ordered_json write_files() const {
    auto sums = ordered_json::object();
    if (stands) return sums;
    for (const auto& file : files)
      if (file.name.starts_with(model_files)) check_finite(file.tensors, batch);
    for (const auto& file : files)
      sums[file.name] = facts_of(write_safetensors(folder.path() / file.name, file.tensors));
    return sums;
  }

  /// Runs `work`, in a thread or in the first wait for it.
  void run(bool behind, std::function<ordered_json()> work) {
    task = std::async(behind ? std::launch::async : std::launch::deferred,
                      [behind, work = std::move(work)] {
                        if (behind) stay_on_one_thread_with_a_name();
                        const at::NoGradGuard no_grad;
                        const ThreadRange range("write checkpoint", /*lasting=*/true);
                        return work();
                      });
  }

  bool is_over(std::chrono::seconds within = {}) const {
    return task.wait_for(within) != std::future_status::timeout;
  }

  std::string name;
  int64_t batch;
  Plan plan;
  NewCheckpoint folder;
  ordered_json manifest;          ///< the manifest, on the first rank
  std::vector<TensorFile> files;  ///< the files of this rank
  bool stands = false;            ///< a complete checkpoint exists and is kept
  bool written = false;           ///< all ranks have written their files
  std::future<ordered_json> task;
};

CheckpointWriter::CheckpointWriter(fs::path folder, Ranks ranks, Options options)
    : folder_(std::move(folder)),
      ranks_(std::move(ranks)),
      options_(options),
      copies_(std::make_unique<HostCopies>()) {}

CheckpointWriter::~CheckpointWriter() {
  try {
    give_up();
  } catch (const std::exception&) {
  }
}

void CheckpointWriter::start(const Checkpoint& checkpoint, Plan plan) {
  job_ = std::make_unique<Job>(folder_, checkpoint, plan);
  Job& job = *job_;
  job.files = tensor_files(checkpoint, ranks_.size());
  if (ranks_.first()) job.manifest = manifest_of(checkpoint, job.files);
  std::erase_if(job.files, [&](const auto& file) { return file.rank != ranks_.rank(); });
  if (options_.behind) {
    std::vector<at::Tensor*> tensors;
    for (auto& file : job.files)
      for (auto& [name, tensor] : file.tensors) tensors.push_back(&tensor);
    copies_->take(tensors);
  }
  if (!ranks_.alone()) return begin_together(job);
  job.run(in_a_thread(), [this, &job] {
    copies_->wait();
    job.stands = !job.folder.begin(job.plan.replace);
    try {
      job.manifest["files"] = job.write_files();
      commit(job);
    } catch (...) {
      job.folder.abandon();
      throw;
    }
    return ordered_json();
  });
}

/// Starts a checkpoint of several ranks: the first rank makes the folder before any rank writes in
/// it.
void CheckpointWriter::begin_together(Job& job) {
  std::exception_ptr problem;
  try {
    if (ranks_.first()) job.stands = !job.folder.begin(job.plan.replace);
  } catch (const std::exception&) {
    problem = std::current_exception();
  }
  job.stands = ranks_.any(job.stands || problem != nullptr);
  job.run(in_a_thread(), [this, &job, problem] {
    copies_->wait();
    if (problem) std::rethrow_exception(problem);
    return job.write_files();
  });
}

/// Publishes a checkpoint whose files are written.
void CheckpointWriter::commit(Job& job) const {
  if (!job.stands) {
    const auto text = job.manifest.dump(1, ' ', false, ordered_json::error_handler_t::replace);
    write_whole(job.folder.path() / "manifest.json", text + "\n");
    job.folder.commit();
  }
  mark_latest_checkpoint(folder_, job.name);
  if (job.plan.best) mark_best_checkpoint(folder_, job.name);
  keep_newest_checkpoints(folder_, options_.newest_to_keep);
}

std::optional<SaveOutcome> CheckpointWriter::poll() {
  if (!job_ || !ranks_.all(job_->is_over())) return std::nullopt;
  return advance();
}

std::optional<SaveOutcome> CheckpointWriter::wait() {
  std::optional<SaveOutcome> outcome;
  while (job_ && !outcome) {
    // However long a rank writes, it answers the others within their time limit.
    while (!ranks_.all(job_->is_over(std::chrono::seconds(1)))) {
    }
    outcome = advance();
  }
  return outcome;
}

std::optional<SaveOutcome> CheckpointWriter::advance() {
  Job& job = *job_;
  const auto own = report_of(job.task);
  const auto texts =
      ranks_.gather(own.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  SaveOutcome outcome;
  outcome.name = job.name;
  outcome.best = job.plan.best;
  std::vector<ordered_json> reports;
  for (const auto& text : texts) {
    const auto& report = reports.emplace_back(ordered_json::parse(text));
    if (!outcome.problem.empty() || problem_in(report).empty()) continue;
    outcome.problem = problem_in(report);
    outcome.not_finite = report.value("not_finite", false);
    outcome.rank = std::ssize(reports) - 1;
  }
  const bool failed = !outcome.problem.empty();
  if (failed && !ranks_.alone() && ranks_.first()) job.folder.abandon();
  if (failed || ranks_.alone() || job.written) {
    job_.reset();
    return outcome;
  }
  job.written = true;
  job.run(in_a_thread() && ranks_.first(), [this, &job, reports = std::move(reports)] {
    if (!ranks_.first()) return ordered_json();
    for (const auto& report : reports) job.manifest["files"].update(report.at("files"));
    commit(job);
    return ordered_json();
  });
  return std::nullopt;
}

void CheckpointWriter::give_up() {
  const auto job = std::move(job_);
  if (!job) return;
  const bool under_way = in_a_thread() && job->task.valid();
  const auto problem = under_way ? problem_in(report_of(job->task)) : "";
  if (!ranks_.alone() && ranks_.first()) job->folder.abandon();
  if (!problem.empty()) throw RunError(problem);
}

}  // namespace composer
