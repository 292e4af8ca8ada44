#include "scale/simulation.h"

#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <queue>
#include <utility>

#include "base/random.h"

namespace composer {
namespace {

/// The event queue, ordered by time; events of the same time run in the order in which they were
/// added.
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

/// Parts that go around a ring: a member sends its next part once it has received the part before
/// from its left and its link is free. After `rounds` parts the member has finished.
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
  std::vector<double> seconds_;  ///< time of a part on each member's link
  Finished finished_;
  std::vector<Member> members_;
};

/// A pipelined sum up a binary tree and back down. The children of member i are 2i + 1 and 2i + 2.
class Tree {
 public:
  /// `seconds`: time of all bytes over the slowest link.
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
    // The bytes pass each link twice, up and down; all machines have the sum at the same time.
    const auto levels = std::floor(std::log2(static_cast<double>(size())));
    agenda_.after(levels * latency_ + 2 * seconds_, [this] {
      for (int64_t i = 0; i < size(); ++i) finished_(i);
    });
  }

  Agenda& agenda_;
  double latency_, seconds_;
  Finished finished_;
  std::vector<int64_t> waits_for_;  ///< number of children and itself that have not arrived
};

double factor(const std::vector<double>& factors, int64_t i) {
  return i < std::ssize(factors) ? factors[static_cast<size_t>(i)] : 1;
}

double largest(const std::vector<double>& factors) {
  return std::accumulate(factors.begin(), factors.end(), 1.0,
                         [](double a, double b) { return std::max(a, b); });
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
      tree_ = std::make_unique<Tree>(agenda, machines, link.latency,
                                     part / link.bytes_per_s * largest(job.slower_network), then);
    }
  }

  void join(int64_t gpu) { reduce_[static_cast<size_t>(gpu / inside_)]->join(gpu % inside_); }

 private:
  /// Called when a GPU has summed its part within its machine.
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

/// A transfer that begins once all its members have joined, and ends for all at once.
class Together {
 public:
  Together(Agenda& agenda, int64_t members, double seconds, Finished finished)
      : agenda_(agenda),
        members_(members),
        waits_for_(members),
        seconds_(seconds),
        finished_(std::move(finished)) {}

  void join() {
    if (--waits_for_ > 0) return;
    agenda_.after(seconds_, [this] {
      for (int64_t i = 0; i < members_; ++i) finished_(i);
    });
  }

 private:
  Agenda& agenda_;
  int64_t members_, waits_for_;
  double seconds_;
  Finished finished_;
};

/// A GPU's transfers go one after another in each lane.
enum LaneName : size_t { of_all, of_rows };
struct Lane {
  int64_t begun = 0, ended = 0;  ///< transfers of this step
  bool busy = false;
};

LaneName lane_of(const Transfer& transfer) {
  return transfer.kind == Transfer::Kind::rows ? of_rows : of_all;
}

class Simulation {
 public:
  Simulation(const SimulatedJob& job, int64_t steps, uint64_t seed)
      : job_(job),
        steps_(steps),
        seed_(seed),
        stages_(stages_of(job.step, job.cluster, job.overlap)),
        slowed_(job.cluster),
        gpus_(static_cast<size_t>(job.cluster.gpus)) {
    const double slowest = largest(job.slower_network);
    slowed_.between.latency *= slowest;
    slowed_.between.bytes_per_s /= slowest;
    for (const auto& stage : stages_)
      for (const auto& transfer : stage.begins) transfers_[lane_of(transfer)].push_back(transfer);
  }

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
    double factor = 1;   ///< factor on its time in this step
    int64_t loaded = 0;  ///< batches ready
    bool loading = false;
    double waits_since = -1;  ///< when it began to wait for data; negative: it does not wait
    size_t stage = 0;
    std::array<Lane, 2> lanes{};
    double stops_since = -1;  ///< when it began to wait for transfers; negative: it does not wait
  };
  /// Step, lane, index of the transfer in the lane, and index of the group of GPUs that take part.
  using Key = std::array<int64_t, 4>;
  /// A transfer under way: either a Sum or a Together.
  struct Moving {
    std::unique_ptr<Sum> sum;
    std::unique_ptr<Together> together;
    int64_t ended = 0;  ///< GPUs for which it has ended
  };

  Gpu& gpu(int64_t i) { return gpus_[static_cast<size_t>(i)]; }
  int64_t members(LaneName lane) const {
    return lane == of_rows ? job_.cluster.of_image : job_.cluster.gpus;
  }

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
    one.stage = 0;
    one.lanes = {};
    enter(i);
  }

  void enter(int64_t i) {
    auto& one = gpu(i);
    one.stops_since = agenda_.now();
    for (const auto& transfer : stages_[one.stage].begins) ++one.lanes[lane_of(transfer)].begun;
    for (const auto lane : {of_all, of_rows}) send(i, lane);
    go_on(i);
  }

  /// Joins the lane's next transfer.
  void send(int64_t i, LaneName lane) {
    auto& one = gpu(i);
    auto& own = one.lanes[lane];
    if (own.busy || own.ended == own.begun) return;
    own.busy = true;
    const int64_t count = members(lane), group = i / count;
    const Key key{one.step, static_cast<int64_t>(lane), own.ended, group};
    auto& moving = moving_[key];
    if (!moving.sum && !moving.together) {
      const auto& transfer = transfers_[lane][static_cast<size_t>(own.ended)];
      const auto finished = [this, key, first = group * count](int64_t member) {
        end_transfer(first + member, key);
      };
      if (transfer.kind == Transfer::Kind::sums)
        moving.sum = std::make_unique<Sum>(agenda_, job_, transfer.bytes, finished);
      else
        moving.together = std::make_unique<Together>(agenda_, count,
                                                     transfer_seconds(transfer, slowed_), finished);
    }
    moving.sum ? moving.sum->join(i) : moving.together->join();
  }

  void end_transfer(int64_t i, const Key& key) {
    const auto lane = static_cast<LaneName>(key[1]);
    if (++moving_.at(key).ended == members(lane))
      agenda_.after(0, [this, key] { moving_.erase(key); });
    auto& own = gpu(i).lanes[lane];
    own.busy = false;
    ++own.ended;
    send(i, lane);
    go_on(i);
  }

  /// Computes the stage once the transfers that it waits for have ended.
  void go_on(int64_t i) {
    auto& one = gpu(i);
    if (one.stops_since < 0) return;
    const auto& stage = stages_[one.stage];
    const auto& rows = one.lanes[of_rows];
    if (one.lanes[of_all].ended < stage.waits_for || rows.ended < rows.begun) return;
    run_.exposed += agenda_.now() - one.stops_since;
    one.stops_since = -1;
    agenda_.after(stage.compute * one.factor, [this, i] {
      if (++gpu(i).stage < stages_.size())
        enter(i);
      else
        end(i);
    });
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
      moving_.clear();
      ended_.clear();
      finished_steps_ = saved_;
      for (auto& one : gpus_) one = Gpu{.step = saved_};
      fail_some_time();
      agenda_.after(job_.failures.restart, [this] {
        for (int64_t i = 0; i < std::ssize(gpus_); ++i) load(i), begin(i);
      });
    });
  }

  const SimulatedJob& job_;
  int64_t steps_;
  uint64_t seed_;
  std::vector<Stage> stages_;
  Cluster slowed_;  ///< the cluster with the slowest machine's network
  std::array<std::vector<Transfer>, 2> transfers_;  ///< transfers of a step, by lane
  Agenda agenda_;
  std::vector<Gpu> gpus_;
  std::map<Key, Moving> moving_;
  std::map<int64_t, int64_t>
      ended_;  ///< by step, the number of GPUs that ended it before the others
  int64_t finished_steps_ = 0, saved_ = 0;
  double first_step_ = 0;
  SimulatedRun run_;
};

}  // namespace

SimulatedRun simulate(const SimulatedJob& job, int64_t steps, uint64_t seed) {
  return Simulation(job, steps, seed).run();
}

}  // namespace composer
