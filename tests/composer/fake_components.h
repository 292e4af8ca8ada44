// Stand-ins for a program's components, and a recipe that names them.
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "composer/logging/logger.h"
#include "composer/loop/loader.h"
#include "composer/recipe/recipe.h"
#include "nn/network/model.h"
#include "nn/optimization/optimizers.h"
#include "nn/optimization/scheduler.h"

namespace composer::test {

using Words = std::vector<std::string>;
using Lines = std::vector<std::string>;

struct Net : Model {
  struct Params {
    int64_t depth = 18;
    std::vector<std::string> initializers;
    void fields(auto&& f) {
      f("depth", depth, "layers", at_least(1));
      f("initializers", initializers, "in this order", one_of("kaiming", "ones", "zeros"));
    }
  };
  explicit Net(Params params) : params(std::move(params)) {}
  at::Tensor forward(const at::Tensor& input) override { return input; }
  int64_t num_classes() const override { return 2; }
  Params params;
};
struct OtherNet : Net {
  explicit OtherNet(Params params) : Net(std::move(params)) {}
};

struct Pictures : Dataset {
  struct Params {
    std::string datadir;
    bool is_train = true;
    std::optional<int64_t> samples;
    void fields(auto&& f) {
      f("datadir", datadir, "folder");
      f("is_train", is_train, "which half");
      f("samples", samples, "how many", at_least(1));
    }
  };
  explicit Pictures(Params) {}
  std::unique_ptr<Loader> open(const LoaderOptions&) const override { return nullptr; }
  std::unique_ptr<Loader> open_files(std::vector<std::string>,
                                     const LoaderOptions&) const override {
    return nullptr;
  }
  bool drop_last() const override { return true; }
  ImageSize image_size() const override { return {1, 1}; }
};

struct Cosine : Scheduler {
  struct Params {
    Time t_warmup;
    std::vector<Time> milestones;
    void fields(auto&& f) {
      f("t_warmup", t_warmup, "warm-up", required);
      f("milestones", milestones, "drops");
    }
  };
  explicit Cosine(Params) {}
  double multiplier(const Timestamp&, const RunLength&, double) const override { return 1; }
};

struct Smoothing : Algorithm {
  struct Params {
    double smoothing = 0.1;
    void fields(auto&& f) { f("smoothing", smoothing, "share", in(0, 1)); }
  };
  explicit Smoothing(Params params) : params(params) {}
  void before_loss(State&) override {}
  void after_loss(State&) override {}
  Params params;
};
struct Resizing : Algorithm {
  struct Params {
    double initial_scale = 0.5;
    int64_t size_increment = 4;
    double shift = 0;
    void fields(auto&& f) {
      f("initial_scale", initial_scale, "share", in(0, 1));
      f("size_increment", size_increment, "pixels", at_least(1));
      f("shift", shift, "any number");
    }
    std::string check() const {
      return shift > initial_scale ? "shift: must not pass initial_scale" : "";
    }
  };
  explicit Resizing(Params params) : params(params) {}
  Params params;
};
struct Mixing : Algorithm {
  struct Params {
    double alpha = 0.2;
    void fields(auto&& f) { f("alpha", alpha, "of the beta distribution", above(0)); }
  };
  explicit Mixing(Params) {}
};
struct Layout : Algorithm {};
struct Speed : Callback {
  void batch_end(const State&, Logger&, RunControl&) override {}
};
struct FileLog : LogSink {
  void write(const Record&) override {}
};

inline const Registry& known() {
  static Registry registry;
  static const bool filled = [] {
    registry.models.add<Net>("net", "a network");
    registry.models.add<OtherNet>("other_net");
    registry.datasets.add<Pictures>("pictures");
    registry.optimizers.add<DecoupledSgdw>("decoupled_sgdw");
    registry.optimizers.add<AdamW>("adamw");
    registry.schedulers.add<Cosine>("cosine_decay");
    registry.algorithms.add<Smoothing>("label_smoothing", "softer labels");
    registry.algorithms.add<Resizing>("progressive_resizing");
    registry.algorithms.add<Mixing>("mixup");
    registry.algorithms.add<Layout>("channels_last");
    registry.callbacks.add<Speed>("speed_monitor");
    registry.loggers.add<FileLog>("file");
    return true;
  }();
  (void)filled;
  return registry;
}

inline const std::string base = R"(model:
  net:
    depth: 50
    initializers: [kaiming, ones]
train_dataset:
  pictures:
    datadir: /data/train
val_dataset:
  pictures:
    is_train: false
train_batch_size: 32
eval_batch_size: 64
max_duration: 9ep
optimizer:
  decoupled_sgdw:
    lr: 0.5
schedulers:
  cosine_decay:
    t_warmup: 1ep
algorithms:
  label_smoothing:
    smoothing: 0.2
  channels_last:
callbacks: [speed_monitor]
)";

/// `base` with the one place where `from` stands changed to `to`.
inline std::string with(const std::string& from, const std::string& to) {
  std::string text = base;
  const size_t at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("no such text: " + from);
  return text.replace(at, from.size(), to);
}

inline Recipe resolved(const std::string& text, const Words& words = {}) {
  return resolve({"r.yaml", text}, words, known());
}

inline Lines problems_of(const std::string& text, const Words& words = {}) {
  try {
    resolved(text, words);
  } catch (const UserError& error) {
    return error.problems();
  }
  return {};
}

}  // namespace composer::test
