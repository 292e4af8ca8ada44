#include "scale/simulation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <queue>

#include "composer/random.h"

namespace composer {
namespace {

/// What happens when, in order of time; at one time in the order in which it was asked for.
class Agenda {
 public:
  using Action = std::function<void()>;

  double now() const { return now_; }
  void after(double seconds, Action action) {
    events_.push({now_ + seconds, count_++, std::move(action)});
  }
  bool next() {
    if (events_.empty()) return false;
    auto event = std::move(const_cast<Event&>(events_.top()));
    events_.pop();
    now_ = event.time;
    event.action();
    return true;
  }
  void clear() { events_ = {}; }

 private:
  struct Event {
    double time;
    int64_t order;
    Action action;
    bool operator<(const Event& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };

  std::priority_queue<Event> events_;
  double now_ = 0;
  int64_t count_ = 0;
};

using Finished = std::function<void(int64_t member)>;

/// Parts that go around a ring: a member sends the next one when it has the one before from its
/// left and the link is free. After `rounds` of them it has finished.
class Ring {
 public:
  Ring(Agenda& agenda, int64_t rounds, std::vector<double> seconds, Finished finished)
      : agenda_(agenda),
        rounds_(rounds),
        seconds_(std::move(seconds)),
        finished_(std::move(finished)),
        members_(seconds_.size()) {}

  void join(int64_t member) {
    members_[static_cast<size_t>(member)].joined = true;
    if (rounds_ == 0) return finished_(member);
    send(static_cast<size_t>(member));
  }

 private:
  struct Member {
    bool joined = false, sending = false, done = false;
    int64_t sent = 0, received = 0;
  };

  void send(size_t i) {
    auto& member = members_[i];
    if (!member.joined || member.sending || member.sent == rounds_ || member.received < member.sent)
      return;
    member.sending = true;
    agenda_.after(seconds_[i], [this, i] {
      const size_t right = (i + 1) % members_.size();
      members_[i].sending = false;
      ++members_[i].sent, ++members_[right].received;
      send(i);
      if (right != i) send(right);
      finish(i);
      if (right != i) finish(right);
    });
  }

  void finish(size_t i) {
    auto& member = members_[i];
    if (member.done || member.sent < rounds_ || member.received < rounds_) return;
    member.done = true;
    finished_(static_cast<int64_t>(i));
  }

  Agenda& agenda_;
  int64_t rounds_;
  std::vector<double> seconds_;  ///< of a part on each member's link
  Finished finished_;
  std::vector<Member> members_;
};

/// Sums up a binary tree and back, all of it in a pipeline. Member i's children are 2i + 1, 2i + 2.
class Tree {
 public:
  /// seconds: of all bytes over the slowest link.
  Tree(Agenda& agenda, int64_t members, double latency, double seconds, Finished finished)
      : agenda_(agenda),
        latency_(latency),
        seconds_(seconds),
        finished_(std::move(finished)),
        waits_for_(static_cast<size_t>(members)) {
    for (int64_t i = 0; i < members; ++i) waits_for_[static_cast<size_t>(i)] = 1 + children(i);
  }

  void join(int64_t member) { arrive(member); }

 private:
  int64_t size() const { return static_cast<int64_t>(waits_for_.size()); }
  int64_t children(int64_t i) const {
    return (2 * i + 1 < size() ? 1 : 0) + (2 * i + 2 < size() ? 1 : 0);
  }

  void arrive(int64_t member) {
    if (--waits_for_[static_cast<size_t>(member)] > 0) return;
    if (member > 0) return agenda_.after(latency_, [this, up = (member - 1) / 2] { arrive(up); });
    // Up and down: the bytes pass each link twice; all machines have them at the same time.
    const auto levels = std::floor(std::log2(static_cast<double>(size())));
    agenda_.after(levels * latency_ + 2 * seconds_, [this] {
      for (int64_t i = 0; i < size(); ++i) finished_(i);
    });
  }

  Agenda& agenda_;
  double latency_, seconds_;
  Finished finished_;
  std::vector<int64_t> waits_for_;  ///< children, and itself
};

double factor(const std::vector<double>& factors, int64_t i) {
  return i < std::ssize(factors) ? factors[static_cast<size_t>(i)] : 1;
}

/// The sum of one bucket over all GPUs.
class Sum {
 public:
  Sum(Agenda& agenda, const SimulatedJob& job, double bytes, Finished finished)
      : inside_(job.cluster.in_machine()), joined_(static_cast<size_t>(job.cluster.machines())) {
    const auto& cluster = job.cluster;
    const int64_t machines = cluster.machines();
    const double part = bytes / static_cast<double>(inside_);
    const auto within = [&](Finished then) {
      return std::make_unique<Ring>(
          agenda, inside_ - 1,
          std::vector<double>(static_cast<size_t>(inside_),
                              cluster.inside.latency + part / cluster.inside.bytes_per_s),
          std::move(then));
    };
    for (int64_t machine = 0; machine < machines; ++machine) {
      reduce_.push_back(within([this, machine](int64_t) { arrive(machine); }));
      gather_.push_back(within(
          [this, machine, finished](int64_t member) { finished(machine * inside_ + member); }));
    }
    if (machines < 2) return;
    const auto& link = cluster.between;
    const auto then = [this](int64_t machine) { spread(machine); };
    if (ring_seconds(part, machines, link) <= tree_seconds(part, machines, link)) {
      std::vector<double> seconds;
      for (int64_t i = 0; i < machines; ++i)
        seconds.push_back((link.latency + part / static_cast<double>(machines) / link.bytes_per_s) *
                          factor(job.slower_network, i));
      ring_ = std::make_unique<Ring>(agenda, 2 * (machines - 1), seconds, then);
    } else {
      double slowest = 1;
      for (const double one : job.slower_network) slowest = std::max(slowest, one);
      tree_ = std::make_unique<Tree>(agenda, machines, link.latency,
                                     part / link.bytes_per_s * slowest, then);
    }
  }

  void join(int64_t gpu) { reduce_[static_cast<size_t>(gpu / inside_)]->join(gpu % inside_); }

 private:
  /// A GPU has summed its part within its machine.
  void arrive(int64_t machine) {
    if (++joined_[static_cast<size_t>(machine)] < inside_) return;
    if (ring_)
      ring_->join(machine);
    else if (tree_)
      tree_->join(machine);
    else
      spread(machine);
  }
  void spread(int64_t machine) {
    for (int64_t i = 0; i < inside_; ++i) gather_[static_cast<size_t>(machine)]->join(i);
  }

  int64_t inside_;
  std::vector<int64_t> joined_;
  std::vector<std::unique_ptr<Ring>> reduce_, gather_;
  std::unique_ptr<Ring> ring_;
  std::unique_ptr<Tree> tree_;
};

class Simulation {
 public:
  Simulation(const SimulatedJob& job, int64_t steps, uint64_t seed)
      : job_(job),
        steps_(steps),
        seed_(seed),
        buckets_(job.cluster.gpus > 1 ? std::ssize(job.step.buckets) : 0),
        gpus_(static_cast<size_t>(job.cluster.gpus)) {}

  SimulatedRun run() {
    fail_some_time();
    for (int64_t i = 0; i < std::ssize(gpus_); ++i) load(i), begin(i);
    while (finished_steps_ < steps_ && agenda_.next()) {
    }
    run_.seconds = agenda_.now();
    const auto later = static_cast<double>(std::max<int64_t>(steps_ - 1, 1));
    run_.seconds_per_step = (run_.seconds - (steps_ > 1 ? first_step_ : 0)) / later;
    const double all = static_cast<double>(steps_) * static_cast<double>(gpus_.size());
    run_.exposed /= all, run_.waited_for_data /= all;
    return run_;
  }

 private:
  struct Gpu {
    int64_t step = 0;
    double factor = 1;   ///< of its own time in this step
    int64_t loaded = 0;  ///< batches that are ready
    bool loading = false;
    double waits_since = -1;        ///< for data; negative: it does not
    int64_t ready = 0, summed = 0;  ///< buckets
    bool summing = false;
    double backward_end = -1;  ///< negative: it goes on
  };

  Gpu& gpu(int64_t i) { return gpus_[static_cast<size_t>(i)]; }

  void load(int64_t i) {
    auto& one = gpu(i);
    if (job_.load_seconds <= 0 || one.loading || one.loaded >= job_.prefetch) return;
    one.loading = true;
    agenda_.after(job_.load_seconds, [this, i] {
      auto& one = gpu(i);
      one.loading = false, ++one.loaded;
      load(i);
      if (one.waits_since < 0) return;
      run_.waited_for_data += agenda_.now() - one.waits_since;
      one.waits_since = -1;
      begin(i);
    });
  }

  void begin(int64_t i) {
    auto& one = gpu(i);
    if (job_.load_seconds > 0) {
      if (one.loaded == 0) {
        one.waits_since = agenda_.now();
        return;
      }
      --one.loaded;
      load(i);
    }
    Random random(seed_, "scale.step", static_cast<uint64_t>(one.step), static_cast<uint64_t>(i));
    one.factor = factor(job_.slower, i) * std::max(0.0, 1 + job_.spread * random.normal());
    one.ready = one.summed = 0;
    one.backward_end = -1;
    const double forward = job_.step.forward * one.factor,
                 backward = job_.step.backward * one.factor;
    for (int64_t b = 0; b < buckets_; ++b) {
      const double ready = job_.overlap ? job_.step.buckets[static_cast<size_t>(b)].ready : 1;
      agenda_.after(forward + ready * backward, [this, i, b] {
        gpu(i).ready = b + 1;
        sum(i);
      });
    }
    agenda_.after(forward + backward, [this, i] {
      gpu(i).backward_end = agenda_.now();
      update(i);
    });
  }

  void sum(int64_t i) {
    auto& one = gpu(i);
    if (one.summing || one.summed >= one.ready) return;
    one.summing = true;
    const int64_t number = one.step * buckets_ + one.summed;
    auto& bucket = sums_[number];
    if (!bucket.sum)
      bucket.sum = std::make_unique<Sum>(agenda_, job_,
                                         job_.step.buckets[static_cast<size_t>(one.summed)].bytes,
                                         [this, number](int64_t gpu) { summed(gpu, number); });
    bucket.sum->join(i);
  }

  void summed(int64_t i, int64_t number) {
    if (++sums_[number].finished == std::ssize(gpus_))
      agenda_.after(0, [this, number] { sums_.erase(number); });
    auto& one = gpu(i);
    one.summing = false;
    ++one.summed;
    sum(i);
    update(i);
  }

  void update(int64_t i) {
    auto& one = gpu(i);
    if (one.backward_end < 0 || one.summed < buckets_) return;
    run_.exposed += agenda_.now() - one.backward_end;
    agenda_.after(job_.step.rest * one.factor, [this, i] { end(i); });
  }

  void end(int64_t i) {
    auto& one = gpu(i);
    ++one.step;
    if (++ended_[one.step] == std::ssize(gpus_)) {
      ended_.erase(one.step);
      finished_steps_ = one.step;
      if (one.step == 1 && first_step_ == 0) first_step_ = agenda_.now();
    }
    if (one.step >= steps_) return;
    const bool saves = job_.checkpoint_every > 0 && one.step % job_.checkpoint_every == 0;
    if (!saves) return begin(i);
    agenda_.after(job_.failures.checkpoint, [this, i, step = one.step] {
      if (i == 0) saved_ = step;
      begin(i);
    });
  }

  void fail_some_time() {
    if (job_.failures.between_failures <= 0) return;
    Random random(seed_, "scale.failure", 0, static_cast<uint64_t>(run_.failures));
    agenda_.after(-std::log1p(-random.uniform()) * job_.failures.between_failures, [this] {
      ++run_.failures;
      run_.steps_done_again += finished_steps_ - saved_;
      agenda_.clear();
      sums_.clear();
      ended_.clear();
      finished_steps_ = saved_;
      for (auto& one : gpus_) one = Gpu{.step = saved_};
      fail_some_time();
      agenda_.after(job_.failures.restart, [this] {
        for (int64_t i = 0; i < std::ssize(gpus_); ++i) load(i), begin(i);
      });
    });
  }

  struct Bucket {
    std::unique_ptr<Sum> sum;
    int64_t finished = 0;
  };

  const SimulatedJob& job_;
  int64_t steps_;
  uint64_t seed_;
  int64_t buckets_;
  Agenda agenda_;
  std::vector<Gpu> gpus_;
  std::map<int64_t, Bucket> sums_;    ///< by step and bucket
  std::map<int64_t, int64_t> ended_;  ///< GPUs that have ended a step which others have not
  int64_t finished_steps_ = 0, saved_ = 0;
  double first_step_ = 0;
  SimulatedRun run_;
};

}  // namespace

SimulatedRun simulate(const SimulatedJob& job, int64_t steps, uint64_t seed) {
  return Simulation(job, steps, seed).run();
}

}  // namespace composer
