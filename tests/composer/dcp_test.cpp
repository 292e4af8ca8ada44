// Folders of PyTorch's distributed checkpoint, read and written.
#include "composer/checkpoint/dcp.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "composer/checkpoint/checkpoint.h"
#include "composer/checkpoint/torch_file.h"
#include "composer/checkpoint/weights.h"
#include "tests/base/largest_file.h"
#include "tests/composer/saved_checkpoint.h"
#include "tests/composer/wave.h"
#include "tests/python.h"
#include "tests/temporary_folder.h"

namespace composer::dcp_test {

using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

TensorMap example() {
  return {{"conv.weight", wave({7, 3, 3, 3}, 0, 0.1)},
          {"conv.bias", wave({7}, 1, 0.1).to(at::kBFloat16)},
          {"fc.weight", wave({10, 4}, 2, 0.1).to(at::kDouble)},
          {"bn.num_batches_tracked", at::full({}, 42, at::kLong)},
          {"one", wave({1, 5}, 3, 0.1).to(at::kHalf)},
          {"none", at::zeros({0, 3})},
          {"rows", at::zeros({3, 0})},
          {"counts", at::arange(6, at::kInt)}};
}

void check_equal(const TensorMap& found, const TensorMap& expected) {
  REQUIRE(found.size() == expected.size());
  for (const auto& [name, tensor] : expected) {
    CAPTURE(name);
    REQUIRE(found.contains(name));
    CHECK(found.at(name).scalar_type() == tensor.scalar_type());
    CHECK(found.at(name).equal(tensor));
  }
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

/// A piece of "w" alone.
void write_piece(const fs::path& file, const at::Tensor& piece, const std::string& info) {
  write_safetensors(file, {{"w", piece}}, {{"DCP_SHARDING_INFO", info}});
}

std::string offsets(const std::string& begin) {
  return R"({"w": {"saved_offsets": )" + begin + "}}";
}

}  // namespace

TEST_CASE("a distributed checkpoint of any number of shards comes back", "[dcp]") {
  const auto shards = GENERATE(1, 2, 3, 5, 8);
  CAPTURE(shards);
  const TemporaryFolder folder;
  write_dcp(folder / "a", example(), shards);
  CHECK(is_dcp_folder(folder / "a"));
  check_equal(read_dcp(folder / "a"), example());
  check_equal(read_weights(folder / "a"), example());
  if (shards == 1)
    CHECK(names_in(folder / "a") == std::set<std::string>{"model-00001-of-00001.safetensors",
                                                          "model.safetensors.index.json"});
  if (shards == 2)
    CHECK(names_in(folder / "a") ==
          std::set<std::string>{"shard-00001-model-00001-of-00001.safetensors",
                                "shard-00002-model-00001-of-00001.safetensors"});
  CHECK_THROWS_WITH(write_dcp(folder / "a", example(), 2), Contains("name a new folder"));
}

TEST_CASE("pieces in several dimensions are put together", "[dcp]") {
  const TemporaryFolder folder;
  const auto whole = wave({5, 4}, 0, 0.1);
  const auto piece = [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
    return whole.narrow(0, row, rows).narrow(1, column, columns);
  };
  write_piece(folder / "a.safetensors", piece(0, 3, 0, 4), offsets("[0, 0]"));
  write_piece(folder / "b.safetensors", piece(3, 2, 0, 1), offsets("[3, 0]"));
  write_piece(folder / "c.safetensors", piece(3, 2, 1, 3), offsets("[3, 1]"));
  CHECK(read_dcp(folder.path()).at("w").equal(whole));
  // Replicas: the last one counts.
  write_piece(folder / "d.safetensors", 2 * piece(0, 3, 0, 4), offsets("[0, 0]"));
  CHECK(read_dcp(folder.path()).at("w").narrow(0, 0, 3).equal(2 * piece(0, 3, 0, 4)));
}

TEST_CASE("pieces that make no whole are refused by name", "[dcp]") {
  const TemporaryFolder folder;
  const auto first = folder / "a.safetensors", second = folder / "b.safetensors";
  const auto piece = at::ones({2, 3});
  const auto problem = [&](const std::string& reason) {
    CHECK_THROWS_WITH(read_dcp(folder.path()),
                      Contains(reason) && Contains(folder.path().string()));
    CHECK_THROWS_AS(read_dcp(folder.path()), UserError);
  };
  write_piece(first, piece, offsets("[1, 0]"));
  problem("'w': pieces are missing");
  write_piece(second, piece, offsets("[2, 0]"));
  problem("overlap");
  write_piece(second, piece.to(at::kDouble), offsets("[3, 0]"));
  problem("another type");
  for (const std::string& info : {offsets("[1]"), offsets("[-1, 0]"), offsets("\"x\""),
                                  offsets("[9223372036854775807, 0]"), std::string("{}")}) {
    write_piece(second, piece, info);
    problem("does not say where its piece of 'w' begins");
  }
  for (const auto& info :
       {std::string("no json"), offsets(std::string(300'000, '[') + std::string(300'000, ']'))}) {
    write_piece(second, piece, info);
    CHECK_FALSE(is_dcp_shard(second));
    problem("no JSON object");
  }
  write_piece(second, piece, offsets("[4611686018427387904, 4611686018427387904]"));
  problem("pieces are missing");
  write_piece(second, at::zeros({0, 1, 1}),
              offsets("[0, 2305843009213693952, 2305843009213693952]"));
  problem("another type");
  fs::remove(first);
  problem("pieces are missing");
  fs::remove(second);
  problem("holds no tensors");

  write_safetensors(first, {{"w", piece}});
  write_safetensors(second, {{"w", piece}});
  problem("'w' stands in " + first.string() + " and in " + second.string());
}

TEST_CASE("shards that are missing are told of", "[dcp]") {
  for (const int missing : {1, 2, 3}) {
    const TemporaryFolder folder;
    write_dcp(folder.path(), example(), 3);
    fs::remove(folder /
               ("shard-0000" + std::to_string(missing) + "-model-00001-of-00001.safetensors"));
    CHECK_THROWS_WITH(read_dcp(folder.path()), Contains("2 of 3 files are there"));
  }
  const TemporaryFolder folder;
  write_safetensors(folder / "model-00002-of-00003.safetensors", example());
  CHECK_THROWS_WITH(read_dcp(folder.path()), Contains("1 of 3 files are there"));
  // What is left of a run's checkpoint is none of PyTorch's.
  write_safetensors(folder / "state-00001-of-00001.safetensors", {});
  CHECK_FALSE(is_dcp_folder(folder.path()));
}

TEST_CASE("a .pth file that finds no room is an error, and nothing is left", "[torch_file]") {
  const TemporaryFolder folder;
  const LargestFile full(100'000);
  CHECK_THROWS_AS(write_torch_file(folder / "a.pth", {{"x", at::zeros({100'000})}}), RunError);
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("state dicts are written as they are read", "[torch_file]") {
  const TemporaryFolder folder;
  auto tensors = example();
  tensors["last"] = wave({2, 3, 4, 5}, 4, 0.1).contiguous(at::MemoryFormat::ChannelsLast);
  tensors["flag"] = at::arange(5).ne(2);
  write_torch_file(folder / "a.pth", tensors);
  check_equal(read_torch_file(folder / "a.pth"), tensors);
  write_torch_file(folder / "none.pth", {});
  CHECK_THROWS_WITH(read_torch_file(folder / "none.pth"), Contains("holds no state dict"));
  CHECK_THROWS_WITH(write_torch_file(folder / "b.pth", {{"x", at::zeros({2}, at::kUInt16)}}),
                    Contains("cannot hold 'x' of type UInt16"));
  CHECK_FALSE(fs::exists(folder / "b.pth"));
}

TEST_CASE("PyTorch reads what is written here, and its files are read here", "[dcp][peer]") {
  if (!test::has_python()) {
    WARN("skipped: no Python's PyTorch (cmake/bootstrap test installs it)");
    return;
  }
  const TemporaryFolder folder;
  auto tensors = example();
  write_safetensors(folder / "expected.safetensors", tensors);
  write_torch_file(folder / "ours.pth", tensors);
  tensors.erase("none"), tensors.erase("rows");  // PyTorch's planner leaves out what is empty
  write_dcp(folder / "ours1", tensors, 1);
  write_dcp(folder / "ours3", tensors, 3);
  Checkpoint checkpoint;  // as training writes it
  checkpoint.model = tensors;
  checkpoint.optimizer.tensors = {{"momentum_buffer.conv.weight", tensors.at("conv.weight")}};
  save_checkpoint(folder / "run", checkpoint);
  REQUIRE(test::run_python(R"(
import os
import torch, torch.distributed as dist, torch.multiprocessing as mp
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.tensor import DeviceMesh, Shard, distribute_tensor
from safetensors.torch import load_file

expected = {name: tensor.clone() for name, tensor in load_file("expected.safetensors").items()}
names = [name for name in expected if expected[name].numel() > 0]

def same(found, names):
    for name in names:
        assert torch.equal(found[name], expected[name]) and found[name].dtype == expected[name].dtype, name

def zeros(names):
    return {name: torch.zeros_like(expected[name]) for name in names}

def whole():
    same(torch.load("ours.pth", weights_only=True), expected)
    for path in ("ours1", "ours3"):
        state = zeros(names)
        dcp.load(state, storage_reader=HuggingFaceStorageReader(path), no_dist=True)
        same(state, names)
    state = zeros(names)
    state["momentum_buffer.conv.weight"] = torch.zeros_like(expected["conv.weight"])
    dcp.load(state, storage_reader=HuggingFaceStorageReader("run/ep0-ba0"), no_dist=True)
    same(state, names)
    assert torch.equal(state["momentum_buffer.conv.weight"], expected["conv.weight"])
    torch.save(expected, "theirs.pth")
    dcp.save({name: expected[name] for name in names}, storage_writer=HuggingFaceStorageWriter("theirs1"), no_dist=True)

def rank(number, address):
    dist.init_process_group("gloo", init_method=address, rank=number, world_size=3)
    mesh = DeviceMesh("cpu", list(range(3)))
    def sharded(tensors):
        return {name: distribute_tensor(tensor, mesh, [Shard(0)]) if tensor.dim() > 0 else tensor
                for name, tensor in tensors.items()}
    dcp.save(sharded({name: expected[name] for name in names}),
             storage_writer=HuggingFaceStorageWriter("theirs3", save_distributed=True))
    # What was written here goes into shards there, by another division.
    read = sharded(zeros(name for name in names if expected[name].dim() > 0))
    dcp.load(read, storage_reader=HuggingFaceStorageReader("ours1"))
    same({name: tensor.full_tensor() for name, tensor in read.items()}, read)
    dist.barrier()
    os._exit(0)  # an orderly end aborts at times: threads of Gloo's that nothing joined

if __name__ == "__main__":
    whole()
    mp.spawn(rank, args=("file://" + os.path.abspath("meeting"),), nprocs=3)
)",
                           folder));
  check_equal(read_torch_file(folder / "theirs.pth"), example());
  check_equal(read_dcp(folder / "theirs1"), tensors);
  check_equal(read_dcp(folder / "theirs3"), tensors);
}

}  // namespace composer::dcp_test
