// The processes that train one network together, each on its share of every batch.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace composer {

struct RankEnvironment;

/// Collectives between ranks. Every rank makes the same calls in the same order, one at a time.
/// LostRankError when another rank does not answer.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;

  /// Adds the tensors up over the ranks, in place; all ranks get the same bits.
  virtual void sum(const std::vector<at::Tensor>& tensors) = 0;
  /// Copies the tensors of rank `from` to all other ranks.
  virtual void broadcast(const std::vector<at::Tensor>& tensors, int64_t from) = 0;
  /// The tensors of all ranks, which have one shape, as [ranks, ...] on every rank.
  virtual at::Tensor gather(const at::Tensor& tensor) = 0;
  /// Sends sent[r] to rank r and receives received[r] from it. Both have one contiguous tensor for
  /// every rank, of any size, of one type, on one device; the tensors for this rank itself are
  /// empty.
  virtual void exchange(const std::vector<at::Tensor>& sent,
                        const std::vector<at::Tensor>& received) = 0;
  virtual void barrier() = 0;
  /// A communicator of these ranks, ascending, this one among them. Every rank calls it, with the
  /// same name for parts of one partition of all ranks.
  virtual std::shared_ptr<Communicator> part(const std::vector<int64_t>& ranks,
                                             const std::string& name) = 0;
  /// The run has failed: cancels the collectives that GPUs still wait for.
  virtual void abort() = 0;
};

/// The ranks of a run, as one of them sees them. The default is a single rank, for which every call
/// is free. A value: copies refer to the same ranks.
///
/// Several neighbouring ranks may have the rows of the same images (spatial parallelism): with
/// spatial_ranks 2, ranks 0 and 1 have the rows of the first share of the batch, ranks 2 and 3
/// those of the second (Dryden et al. 2019, "Improving strong-scaling of CNN training by exploiting
/// finer-grained parallelism", arXiv:1903.06681).
class Ranks {
 public:
  Ranks() = default;
  explicit Ranks(std::shared_ptr<Communicator> communicator)
      : communicator_(std::move(communicator)) {}

  int64_t rank() const { return communicator_ ? communicator_->rank() : 0; }
  int64_t size() const { return communicator_ ? communicator_->size() : 1; }
  bool first() const { return rank() == 0; }  ///< the rank that writes files and logs for all
  bool alone() const { return size() == 1; }

  /// The same ranks, in groups of `spatial_ranks` that have the rows of the same images. Every rank
  /// calls it. UserError unless spatial_ranks divides size().
  Ranks divided_by_rows(int64_t spatial_ranks) const;
  /// The ranks that have rows of the same images as this one, in the order of the rows; this rank
  /// alone without divided_by_rows().
  Ranks of_rows() const { return Ranks(rows_); }
  /// The ranks that have the same rows as this one, of other samples.
  Ranks of_samples() const { return rows_ ? Ranks(samples_) : Ranks(communicator_); }

  /// Adds up over all ranks, in place; every rank gets the same bits. The tensor is contiguous, on
  /// any device.
  void sum(const at::Tensor& tensor) const;
  void sum(const std::vector<at::Tensor>& tensors) const;
  int64_t sum(int64_t value) const;

  /// Rank `from`'s value, on every rank.
  void broadcast(const at::Tensor& tensor, int64_t from = 0) const;
  void broadcast(const std::vector<at::Tensor>& tensors, int64_t from = 0) const;
  std::string broadcast(const std::string& text, int64_t from = 0) const;
  double broadcast(double value, int64_t from = 0) const;

  /// [ranks, ...] of a tensor that has the same shape on every rank.
  at::Tensor gather(const at::Tensor& tensor) const;
  /// The rows of all ranks, one rank after another. own: this rank's, [counts[rank], ...].
  at::Tensor gather_rows(const at::Tensor& own, const std::vector<int64_t>& counts) const;
  /// See Communicator; does nothing for a single rank.
  void exchange(const std::vector<at::Tensor>& sent, const std::vector<at::Tensor>& received) const;
  /// Each rank's value, in the order of the ranks.
  std::vector<int64_t> gather(int64_t value) const;
  std::vector<std::string> gather(const std::string& text) const;

  /// Whether the value is true on every rank, or on any rank.
  bool all(bool value) const;
  bool any(bool value) const;

  /// Returns once every rank has called it.
  void barrier() const;
  /// The run has failed: cancels the collectives that GPUs still wait for.
  void abort() const;

  /// Null for one rank.
  const std::shared_ptr<Communicator>& communicator() const { return communicator_; }

 private:
  std::shared_ptr<Communicator> communicator_;
  std::shared_ptr<Communicator> rows_, samples_;  ///< null without spatial parallelism
};

/// Connects to the other ranks: by Gloo between CPUs and, where `device` is a GPU, by NCCL between
/// GPUs. timeout_seconds: for connecting and for every later call. Returns once all ranks are
/// connected. Does nothing for a single rank. RunError when a rank does not come.
Ranks join_ranks(const RankEnvironment& environment, at::Device device, double timeout_seconds);

/// The problem with that many spatial_ranks of `ranks` ranks, for people; empty where there is
/// none.
std::string spatial_ranks_problem(int64_t spatial_ranks, int64_t ranks);

}  // namespace composer
