#include <nlohmann/json.hpp>

#include "scale/plan.h"

namespace composer {

nlohmann::ordered_json json_of(const ScalePlan& plan, const Training& training) {
  nlohmann::ordered_json json{
      {"gpus", plan.cluster.gpus},
      {"machines", plan.cluster.machines()},
      {"batch_size", training.batch_size},
      {"images_per_gpu", plan.images_per_gpu},
      {"steps", plan.steps},
      {"images_per_s", plan.images_per_s},
      {"step_seconds", plan.step.seconds},
      {"compute_seconds", plan.step.compute},
      {"seconds", plan.seconds()},
      {"training_seconds", plan.training_seconds},
      {"evaluation_seconds", plan.evaluation_seconds},
      {"evaluated_images", training.evaluated_images},
      {"cost", plan.cost},
      {"communication",
       {{"bytes_per_gpu", plan.bytes_per_step},
        {"seconds", plan.step.communication},
        {"hidden_fraction", plan.step.hidden_fraction()},
        {"exposed_seconds", plan.step.exposed},
        {"weight_bytes_per_gpu", plan.weight_bytes},
        {"weight_seconds", plan.step.weights},
        {"row_bytes_per_gpu", plan.row_bytes},
        {"row_seconds", plan.step.rows},
        {"machine_bytes_per_s", plan.machine_bytes_per_s},
        {"gpu_link_bytes_per_s", plan.inside_bytes_per_s}}},
      {"loader",
       {{"cores_per_gpu", plan.loader_cores_per_gpu},
        {"images_per_s_per_core", training.images_per_s_per_core},
        {"wait_seconds", plan.step.loading}}},
      {"storage_bytes_per_s", plan.storage_bytes_per_s},
      {"activation_bytes", plan.memory.activations},
      {"memory",
       {{"bytes", plan.memory.total()},
        {"parameters", plan.memory.parameters},
        {"gradients", plan.memory.gradients},
        {"optimizer_state", plan.memory.optimizer_state},
        {"gathered", plan.memory.gathered},
        {"half_precision_copies", plan.memory.half_precision_copies},
        {"activations", plan.memory.activations}}},
      {"checkpoint",
       {{"bytes", training.checkpoint_bytes},
        {"number", training.checkpoints},
        {"write_seconds", plan.write_seconds},
        {"stall_seconds", plan.stall_seconds},
        {"interval_seconds", plan.checkpoint_interval},
        {"seconds", plan.checkpoint_seconds}}},
      {"failures",
       {{"per_day", plan.failures_per_day},
        {"seconds", plan.failure_seconds},
        {"cost", plan.seconds() > 0 ? plan.cost * plan.failure_seconds / plan.seconds() : 0}}}};
  if (plan.best_interval > 0) json["checkpoint"]["best_interval_seconds"] = plan.best_interval;
  if (plan.simulated)
    json["simulated"] = {{"step_seconds", plan.simulated->seconds_per_step},
                         {"exposed_seconds", plan.simulated->exposed},
                         {"wait_seconds", plan.simulated->waited_for_data},
                         {"failure_seconds", plan.simulated_failure_seconds}};
  return json;
}

}  // namespace composer
