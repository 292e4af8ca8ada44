// The processes that train one network together, each on its share of every batch.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace composer {

/// How ranks reach each other. Every rank makes the same calls in the same order, one at a time.
/// LostRankError when another rank does not answer.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;

  /// Adds the tensors up over the ranks, in place; all ranks get the same bits.
  virtual void sum(const std::vector<at::Tensor>& tensors) = 0;
  /// Copies the tensors of rank `from` into those of all others.
  virtual void broadcast(const std::vector<at::Tensor>& tensors, int64_t from) = 0;
  /// `tensor`, of the same shape on every rank, as [ranks, ...] on every rank.
  virtual at::Tensor gather(const at::Tensor& tensor) = 0;
  /// Gives sent[r] to rank r and fills received[r] with what that one gives. One of each for every
  /// rank, contiguous, of one type, on one device, of any size; empty for this rank itself.
  virtual void exchange(const std::vector<at::Tensor>& sent,
                        const std::vector<at::Tensor>& received) = 0;
  virtual void barrier() = 0;
  /// These ranks alone, this one among them, ascending. Every rank calls it, with one name for one
  /// division of all into such parts.
  virtual std::shared_ptr<Communicator> part(const std::vector<int64_t>& ranks,
                                             const std::string& name) = 0;
  /// The run has failed: gives up what GPUs still wait for from other ranks.
  virtual void abort() = 0;
};

/// What a rank knows of the others; made without any, it is the only one, and nothing here costs
/// it anything. A value: copies mean the same ranks.
///
/// Ranks may be divided further, so that several neighbours have the rows of the same images:
/// `spatial_ranks` is 2 where ranks 0 and 1 have those of one share of the batch, 2 and 3 of the
/// next (Dryden et al. 2019, "Improving strong-scaling of CNN training by exploiting finer-grained
/// parallelism", arXiv:1903.06681).
class Ranks {
 public:
  Ranks() = default;
  explicit Ranks(std::shared_ptr<Communicator> communicator)
      : communicator_(std::move(communicator)) {}

  int64_t rank() const { return communicator_ ? communicator_->rank() : 0; }
  int64_t size() const { return communicator_ ? communicator_->size() : 1; }
  bool first() const { return rank() == 0; }  ///< the one that writes and speaks for all
  bool alone() const { return size() == 1; }

  /// The same ranks, of which so many have the rows of the same images. Every rank calls it.
  /// UserError where the number does not divide that of all.
  Ranks divided_by_rows(int64_t spatial_ranks) const;
  /// Of those that have rows of the same images, this one, in the order of the rows; without
  /// divided_by_rows() it is alone.
  Ranks of_rows() const { return Ranks(rows_); }
  /// Of those that have other samples, and the same rows of them, this one.
  Ranks of_samples() const { return rows_ ? Ranks(samples_) : Ranks(communicator_); }

  /// In place, over all ranks, to the same bits on each. The tensor is contiguous, on any device.
  void sum(const at::Tensor& tensor) const;
  void sum(const std::vector<at::Tensor>& tensors) const;
  int64_t sum(int64_t value) const;

  /// What rank `from` has, on every rank.
  void broadcast(const at::Tensor& tensor, int64_t from = 0) const;
  void broadcast(const std::vector<at::Tensor>& tensors, int64_t from = 0) const;
  std::string broadcast(const std::string& text, int64_t from = 0) const;
  double broadcast(double value, int64_t from = 0) const;

  /// [ranks, ...] of a tensor that has the same shape on every rank.
  at::Tensor gather(const at::Tensor& tensor) const;
  /// See Communicator; for one rank nothing.
  void exchange(const std::vector<at::Tensor>& sent, const std::vector<at::Tensor>& received) const;
  /// One value of each rank, in their order.
  std::vector<int64_t> gather(int64_t value) const;
  std::vector<std::string> gather(const std::string& text) const;

  /// Whether it is true on every rank, on any rank.
  bool all(bool value) const;
  bool any(bool value) const;

  /// Returns once every rank is here.
  void barrier() const;
  /// The run has failed: gives up what GPUs still wait for from other ranks.
  void abort() const;

  /// Null for one rank.
  const std::shared_ptr<Communicator>& communicator() const { return communicator_; }

 private:
  std::shared_ptr<Communicator> communicator_;
  std::shared_ptr<Communicator> rows_, samples_;  ///< null where images are not divided
};

/// What is wrong with so many spatial_ranks among all ranks, for people; empty: nothing.
std::string spatial_ranks_problem(int64_t spatial_ranks, int64_t ranks);

}  // namespace composer
