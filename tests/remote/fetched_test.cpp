#include "base/remote/fetched.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "tests/remote/aws_environment.h"
#include "tests/remote/memory_store.h"
#include "tests/temporary_folder.h"

namespace composer::fetched_test {

using namespace composer::test;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

struct Store {
  AwsEnvironment environment;
  MemoryStore memory;
  TemporaryFolder cache;

  Store() {
    log::quiet();
    environment.set_keys();
    environment.set("AWS_ENDPOINT_URL", memory.url());
    environment.set("XDG_CACHE_HOME", cache.path());
  }
};

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string problem_of(const std::string& path) {
  try {
    fetched(path);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("local paths are as they are", "[remote]") {
  CHECK(fetched("runs/a") == "runs/a");
  CHECK(fetched("") == "");
}

TEST_CASE("a link to a folder beside it is followed", "[remote]") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "ep1-ba4");
  fs::create_directory_symlink("ep1-ba4", folder / "latest");
  for (const char* written : {"latest", "latest/"})
    CHECK(fetched((folder / written).string()) == folder / "ep1-ba4");
  fs::create_directory_symlink(folder / "ep1-ba4", folder / "elsewhere");
  CHECK(fetched((folder / "elsewhere").string()) == folder / "elsewhere");
  CHECK(fetched((folder / "ep1-ba4/").string()) == folder / "ep1-ba4/");
  folder.write("net-v3", "");
  fs::create_symlink("net-v3", folder / "net.safetensors");
  CHECK(fetched((folder / "net.safetensors").string()) == folder / "net.safetensors");
}

TEST_CASE("a remote file is copied once a version", "[remote]") {
  Store store;
  std::string content(20'000'000, 'x');
  for (size_t i = 0; i < content.size(); i += 1000) content[i] = static_cast<char>(i >> 12);
  store.memory.put("a/w.pth", content);
  fs::path path;
  {
    std::vector<std::jthread> ranks;
    for (int i = 0; i < 4; ++i) ranks.emplace_back([] { fetched("s3://bucket/a/w.pth"); });
  }
  path = fetched("s3://bucket/a/w.pth");
  CHECK(path.filename() == "w.pth");
  CHECK((text_of(path) == content));
  size_t gets = 0;
  for (const auto& request : store.memory.server().requests()) gets += request.method == "GET";
  CHECK(gets == 3);  // of 8 MiB each
  for (int i = 0; i < 12; ++i) {
    const std::string name = "v" + std::to_string(i);
    store.memory.put(name, name);
    CHECK(text_of(fetched("s3://bucket/" + name)) == name);
  }
  size_t entries = 0;
  for (const auto& entry : fs::directory_iterator(store.cache / "composer/fetched"))
    entries += entry.is_directory();
  CHECK(entries == 8);
}

TEST_CASE("remote folders of checkpoints and exports are copied whole", "[remote]") {
  Store store;
  store.memory.put("run/ep1-ba2/manifest.json", R"({"files": {"m.safetensors": {}, "o": {}}})");
  store.memory.put("run/ep1-ba2/m.safetensors", "weights");
  store.memory.put("run/ep1-ba2/o", "optimizer");
  store.memory.put("run/ep1-ba2/other", "not named");
  for (const char* path : {"s3://bucket/run/ep1-ba2", "s3://bucket/run/ep1-ba2/"}) {
    const auto folder = fetched(path);
    CHECK(text_of(folder / "m.safetensors") == "weights");
    CHECK(text_of(folder / "o") == "optimizer");
    CHECK(fs::exists(folder / "manifest.json"));
    CHECK_FALSE(fs::exists(folder / "other"));
  }
  store.memory.put("net/model.safetensors", "weights");
  store.memory.put("net/network.json", "{}");
  CHECK(text_of(fetched("s3://bucket/net") / "model.safetensors") == "weights");
  // By a web server, which lists nothing.
  const auto web = fetched(store.memory.url() + "/bucket/run/ep1-ba2");
  CHECK(text_of(web / "o") == "optimizer");
}

TEST_CASE("what is not there is named, with what is", "[remote]") {
  Store store;
  store.memory.put("run/ep1-ba2/manifest.json", R"({"files": {"gone": {}}})");
  CHECK_THAT(problem_of("s3://bucket/run"),
             Contains("s3://bucket/run: there is no such object, and no folder of a checkpoint; "
                      "below it are s3://bucket/run/ep1-ba2/"));
  CHECK_THAT(problem_of("s3://bucket/nothing"), !Contains("below"));
  CHECK_THAT(problem_of("s3://bucket/run/ep1-ba2"), Contains("gone: is missing"));
  CHECK_THAT(problem_of("s3://other/x"), Contains("there is no bucket 'other'"));
  for (const char* damaged : {"{}", "[]", "x", R"({"files": {"../x": {}}})"}) {
    store.memory.put("bad/manifest.json", damaged);
    CHECK_THAT(problem_of("s3://bucket/bad"), Contains("s3://bucket/bad/manifest.json"));
  }
}

}  // namespace composer::fetched_test
