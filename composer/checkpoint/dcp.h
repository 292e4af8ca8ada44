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

/// The tensors of all files of the folder itself, whole. A piece that stands in several files is
/// taken from the last one by name. Throws UserError naming the file or the tensor: what
/// read_safetensors() refuses, tensors without pieces that stand in several files, pieces that
/// overlap or do not make a whole. That the last rows of a tensor are missing cannot be told of
/// PyTorch's shards, which do not say how many there are; those of write_dcp() do.
TensorMap read_dcp(const std::filesystem::path& folder);

/// Writes them into `folder`, which is made and must hold no other safetensors files, for
/// torch.distributed.checkpoint.HuggingFaceStorageReader. shards: 1: one file and an index of it;
/// more: as so many ranks write them, each a chunk of every tensor along its first dimension
/// (torch.chunk), the first one those without a dimension. Throws RunError; UserError where the
/// folder holds some already, or a name is not UTF-8.
void write_dcp(const std::filesystem::path& folder, const TensorMap& tensors, int64_t shards = 1);

}  // namespace composer
