// Files that answer late, as those of a network's file system.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "program.h"
#include "tests/data/photos.h"
#include "tests/temporary_folder.h"

namespace composer::slow_folder_test {

using namespace composer::test;

namespace {

/// Variables of the environment, of programs that are started meanwhile.
class Environment {
 public:
  explicit Environment(std::map<std::string, std::string> values) : values_(std::move(values)) {
    for (const auto& [name, value] : values_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : values_) unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace

TEST_CASE("slow files do not hold up the threads that decode", "[cli]") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  WARN("skipped: a sanitizer's program does not let other libraries go first");
#else
  const TemporaryFolder folder;
  draw_photos(folder.path() / "photos", 400, [](int) { return 32; });
  const auto photos = (folder.path() / "photos").string();
  const auto rate = [&](int milliseconds) {
    const Environment environment({{"LD_PRELOAD", SLOW_FOLDER},
                                   {"COMPOSER_SLOW_FOLDER", photos + "/"},
                                   {"COMPOSER_SLOW_MS", std::to_string(milliseconds)}});
    const auto done = run(folder.path(), {"bench", "loader", "--source", photos, "--batch_size",
                                          "20", "--epochs", "3", "--crop_index", "off", "--json"});
    INFO(done.errors);
    REQUIRE(done.status == 0);
    return nlohmann::json::parse(done.output)["images_per_s"].get<double>();
  };
  // Opening and reading take 5 ms each: alone, the two threads come to 200 files a second.
  CHECK(rate(5) > 4 * 200);
#endif
}

}  // namespace composer::slow_folder_test
