// What a program that gets a run's values gets, and what it misses.
#include "composer/logging/command_log.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "tests/composer/terminal.h"
#include "tests/temporary_folder.h"

namespace composer::command_log_test {

using Catch::Contains;
namespace fs = std::filesystem;

namespace {

Record record_of(int64_t batch, const std::string& name) {
  Record record{"batch", {}, {{name, 1.0}}};
  record.time.batch = batch;
  return record;
}

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// What the end says of `log`.
std::string problem_at_end(CommandLog& log) {
  try {
    log.run_end({"completed", ""});
  } catch (const RunError& error) {
    return error.what();
  }
  return "";
}

int64_t number_before(const std::string& text, const std::string& words) {
  const size_t end = text.find(words);
  if (end == std::string::npos) return 0;
  const size_t begin = text.find_last_not_of("0123456789", end - 1) + 1;
  return std::stoll(text.substr(begin, end - begin));
}

}  // namespace

TEST_CASE("command: lines wait for a program that does not read, and what is too much is counted",
          "[logging]") {
  const TemporaryFolder folder;
  const auto go = folder / "go", got = folder / "got";
  CommandLog log({.run = "while [ ! -e '" + go.string() + "' ]; do sleep 0.01; done; cat > '" +
                         got.string() + "'"});
  log.open({});
  constexpr int64_t records = 300;
  const std::string name(8000, 'x');  // 2.4 MB in all, of which 1 MiB waits
  for (int64_t batch = 0; batch < records; ++batch) log.write(record_of(batch, name));
  CHECK_THROWS_WITH(log.flush(), Contains("does not read what it is given"));
  const double begin = steady_seconds();
  CHECK_THROWS_AS(log.flush(), RunError);
  CHECK(steady_seconds() - begin < 0.9);  // it is not waited for twice
  std::ofstream(go) << "now";
  const auto takes_all = [&] {
    try {
      return log.flush(), true;
    } catch (const RunError&) {
      return false;
    }
  };
  while (!takes_all() && steady_seconds() < begin + 20)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto problem = problem_at_end(log);
  const auto lines = lines_of(got);
  const int64_t dropped = number_before(problem, " lines did not reach it");
  INFO(problem.substr(problem.size() - std::min<size_t>(problem.size(), 100)));
  CHECK(dropped > 100);
  REQUIRE(std::ssize(lines) + dropped == records + 2);
  for (int64_t i = 1; i + 1 < std::ssize(lines); ++i)
    CHECK(nlohmann::json::parse(lines[static_cast<size_t>(i)]).at("batch") == i - 1);
  CHECK(nlohmann::json::parse(lines.back()).at("event") == "end");
}

TEST_CASE("command: lines for a program that has closed its input are counted", "[logging]") {
  const TemporaryFolder folder;
  const auto closed = folder / "closed";
  CommandLog log({.run = "read line; exec <&-; touch '" + closed.string() + "'; sleep 0.3"});
  log.open({});
  while (!fs::exists(closed)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (int64_t batch = 0; batch < 50; ++batch) log.write(record_of(batch, "loss"));
  try {
    log.flush();
  } catch (const RunError&) {  // where it has ended by now
  }
  CHECK(number_before(problem_at_end(log), " lines did not reach it") == 51);
}

TEST_CASE("command: of a program that reads nothing and is killed the unread bytes are told",
          "[logging]") {
  CommandLog log({.run = "exec sleep 100", .end_seconds = 0.1});
  log.open({});
  log.write(record_of(1, "a"));
  const auto problem = problem_at_end(log);
  CHECK_THAT(problem, Contains("did not end and was killed"));
  CHECK(number_before(problem, " bytes") > 100);
}

TEST_CASE("command: bytes that are no UTF-8 are replaced", "[logging]") {
  const TemporaryFolder folder;
  const auto got = folder / "got";
  CommandLog log({.run = "cat > '" + got.string() + "'"});
  RunInfo info;
  info.run_name = "caf\xe9", info.folder = "/\xff";
  log.open(info);
  log.write(record_of(1, "loss/\xe9"));
  log.flush();
  log.run_end({"failed", "no \xfe"});
  const auto lines = lines_of(got);
  REQUIRE(lines.size() == 3);
  const std::string unknown = "\xef\xbf\xbd";
  const auto start = nlohmann::json::parse(lines[0]);
  CHECK(start.at("run_name") == "caf" + unknown);
  CHECK(start.at("folder") == "/" + unknown);
  CHECK(nlohmann::json::parse(lines[1]).at("loss/" + unknown) == 1);
  CHECK(nlohmann::json::parse(lines[2]).at("message") == "no " + unknown);
}

}  // namespace composer::command_log_test
