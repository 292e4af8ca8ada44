// The files of PyTorch's distributed checkpoint in its safetensors form
// (torch.distributed.checkpoint.HuggingFaceStorageWriter of PyTorch 2.11): a folder of safetensors
// files, each with pieces of tensors; where a piece begins stands in the file's metadata
// "DCP_SHARDING_INFO".
#pragma once

#include "composer/checkpoint/safetensors.h"

namespace composer {

/// Whether the folder has safetensors files, and is neither a checkpoint of this library nor a
/// remnant of one.
bool is_dcp_folder(const std::filesystem::path& folder);

/// Whether the file has shards of tensors, by its metadata.
bool is_dcp_shard(const std::filesystem::path& file);

/// The complete tensors of all files directly in the folder. A shard that several files have is
/// taken from the last file by name. UserError names the file or the tensor: errors of
/// read_safetensors(), unsharded tensors in several files, shards that overlap or are incomplete.
/// PyTorch's shards do not tell their number, so that missing last rows of a tensor are not
/// detected; those of write_dcp() tell it.
TensorMap read_dcp(const std::filesystem::path& folder);

/// Writes `tensors` into `folder`, which is created and must have no safetensors files, for
/// torch.distributed.checkpoint.HuggingFaceStorageReader. shards: 1: one file and its index; more:
/// files as written by that many ranks, each with a chunk of every tensor along the first dimension
/// (torch.chunk); the first file has tensors without dimensions. Throws RunError; UserError if the
/// folder has such files already, or if a name is not UTF-8.
void write_dcp(const std::filesystem::path& folder, const TensorMap& tensors, int64_t shards = 1);

}  // namespace composer
