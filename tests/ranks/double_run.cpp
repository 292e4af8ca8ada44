#include "tests/ranks/double_run.h"

#include <ATen/Parallel.h>

#include <catch2/catch.hpp>
#include <mutex>

namespace composer::test {

Trained train_on(int64_t size, const Setup& setup) {
  at::set_num_threads(1);
  // Weights are drawn from the process's generator, which the ranks would share.
  std::vector<std::shared_ptr<Model>> models;
  for (int64_t rank = 0; rank < size; ++rank) {
    at::manual_seed(3);
    models.push_back(setup.model());
  }
  std::mutex mutex;
  std::vector<Trained> ranks_trained(static_cast<size_t>(size));
  in_ranks(size, [&](const Ranks& all) {
    at::set_num_threads(1);
    const auto ranks = all.divided_by_rows(setup.spatial_ranks);
    const auto index = static_cast<size_t>(ranks.rank());
    auto parts = small_parts(models[index], setup.batches, setup.batch_size);
    parts.options.spatial_ranks = setup.spatial_ranks;
    const auto samples = ranks.of_samples();
    parts.train_loader = noise_loader(100, setup.batch_size, true, samples, setup.image_size);
    parts.eval_loader = noise_loader(37, 6, false, samples, setup.image_size);
    const auto sink = std::make_shared<ValuesSink>();
    parts.loggers.push_back(sink);
    parts.ranks = ranks;
    setup.change(parts);
    Trainer trainer(std::move(parts));
    setup.add(trainer);
    auto& trained = ranks_trained[index];
    trained.summary = trainer.fit();
    trained.time = trainer.state().time;
    for (const auto& item : trainer.state().model->named_parameters())
      trained.weights[item.key()] = item.value().detach().clone();
    trained.losses = sink->losses, trained.metrics = sink->last;
  });
  for (const auto& trained : ranks_trained) {
    CHECK(difference(trained, ranks_trained[0]) == 0);
    CHECK(trained.time.sample == ranks_trained[0].time.sample);
  }
  return ranks_trained[0];
}

}  // namespace composer::test
