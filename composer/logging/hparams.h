// What TensorBoard's HPARAMS tab is told of a run.
// Field numbers are those of tensorboard/plugins/hparams/{plugin_data,api}.proto.
#pragma once

#include <string>

#include "base/files/protobuf.h"

namespace composer {

/// A run begins with these hyperparameters, the keys of its recipe by their dotted paths. Values
/// for summary_event.
ProtobufMessage session_start(const std::string& recipe, double wall_time);

/// It has ended: completed, or not.
ProtobufMessage session_end(bool completed, double wall_time);

}  // namespace composer
