#include "base/process/supervisor.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <future>
#include <set>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "tests/base/child_process.h"
#include "tests/temporary_folder.h"

namespace composer::supervisor_test {

using Catch::Contains;
namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

namespace {

Command shell(const std::string& script) { return {"/bin/sh", {"-c", script}, {}, {}}; }

/// A supervisor that keeps the lines of each child, of both streams, and hands them on.
struct Heard {
  explicit Heard(SupervisorOptions options = {},
                 std::function<void(const std::string& line)> also = nullptr)
      : supervisor([&] {
          options.take_line = [this, also](size_t child, Stream stream, std::string_view line) {
            lines[child].emplace_back((stream == Stream::errors ? "! " : "") + std::string(line));
            if (also) also(lines[child].back());
          };
          return options;
        }()) {}

  /// Starts each script and waits for all.
  void run(const std::vector<std::string>& scripts) {
    for (const auto& script : scripts) supervisor.start(shell(script));
    supervisor.wait();
  }

  std::map<size_t, Lines> lines;
  Supervisor supervisor;
};

/// Whose writing end blocks.
class Pipe {
 public:
  Pipe() { REQUIRE(::pipe2(ends_, O_CLOEXEC) == 0); }
  ~Pipe() { close_reader(), close_writer(); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int writer() const { return ends_[1]; }
  void close_reader() { close(ends_[0]); }
  void close_writer() { close(ends_[1]); }

  /// Waits for something; empty at the end.
  std::string read() const {
    char bytes[4096];
    const ssize_t size = ::read(ends_[0], bytes, sizeof bytes);
    return {bytes, static_cast<size_t>(std::max<ssize_t>(size, 0))};
  }
  /// Pauses before each piece.
  std::string read_all(double pause) const {
    std::string all, piece;
    do {
      std::this_thread::sleep_for(std::chrono::duration<double>(pause));
      all += piece = read();
    } while (!piece.empty());
    return all;
  }

 private:
  static void close(int& end) {
    if (end >= 0) ::close(std::exchange(end, -1));
  }

  int ends_[2];
};

/// A supervisor whose children's output goes to a descriptor, each line behind the child's number.
struct Written {
  explicit Written(int descriptor)
      : writer(descriptor), supervisor([&] {
          SupervisorOptions options;
          options.writers[0] = &writer;
          options.take_line = [this](size_t child, Stream, std::string_view line) {
            writer.add(std::to_string(child) + ": ", line);
          };
          return options;
        }()) {}

  void run(const std::vector<std::string>& scripts) {
    for (const auto& script : scripts) supervisor.start(shell(script));
    supervisor.wait();
  }

  LineWriter writer;
  Supervisor supervisor;
};

/// Gone, or ended and not yet missed by whoever inherited it.
bool is_gone(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return true;
  return text.substr(text.rfind(')') + 2, 1) == "Z";
}

bool ends_soon(pid_t process) {
  for (int i = 0; i < 500 && !is_gone(process); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return is_gone(process);
}

void wait_for_file(const fs::path& path) {
  for (int i = 0; i < 3000 && !fs::exists(path); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

std::set<int> open_descriptors() {
  std::set<int> all;
  for (int n = 0; n < 256; ++n)
    if (::fcntl(n, F_GETFD) >= 0) all.insert(n);
  return all;
}

}  // namespace

TEST_CASE("children are heard line by line, and their statuses kept", "[process]") {
  const auto descriptors = open_descriptors();
  {
    SupervisorOptions options;
    options.fail_together = false;
    Heard heard(options);
    heard.run({"seq 1 20000", "for i in $(seq 1 20000); do echo $i >&2; done",
               "echo one; echo; printf 'a \\377\\376 b\\nno newline'; exit 3",
               "head -c 1000000 /dev/zero | tr '\\0' x; echo; echo after", "kill -9 $$",
               "cat; echo end of input"});
    for (const size_t child : {0, 1}) {
      Lines wanted;
      for (int i = 1; i <= 20000; ++i)
        wanted.push_back((child == 1 ? "! " : "") + std::to_string(i));
      CHECK(heard.lines[child] == wanted);
      CHECK(heard.supervisor.status(child) == 0);
    }
    CHECK(heard.lines[2] == Lines{"one", "", "a \xff\xfe b", "no newline"});
    CHECK(heard.supervisor.status(2) == 3);
    REQUIRE(heard.lines[3].size() == 2);
    CHECK(heard.lines[3][0] == std::string(1'000'000, 'x'));
    CHECK(heard.lines[3][1] == "after");
    CHECK(heard.supervisor.status(4) == 137);
    CHECK(heard.lines[5] == Lines{"end of input"});
    CHECK((heard.supervisor.status() == 3 || heard.supervisor.status() == 137));
  }
  CHECK(open_descriptors() == descriptors);
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // no zombie
}

TEST_CASE("lines that nobody will read are counted", "[process]") {
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  LineWriter writer(pipe[1]);
  writer.add("", "one");
  writer.write();
  CHECK(writer.dropped() == 0);
  ::close(pipe[0]);
  for (const char* line : {"two", "three"}) writer.add("", line);
  writer.write();
  CHECK_FALSE(writer.waits());
  CHECK(writer.dropped() == 2);
  writer.add("", "four");
  writer.give_up();
  CHECK(writer.dropped() == 3);
  ::close(pipe[1]);
  std::signal(SIGPIPE, before);
}

TEST_CASE("lines of two children are whole in one file", "[process]") {
  const TemporaryFolder folder;
  const int file =
      ::open((folder / "log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const std::string a(300, 'a'), b(300, 'b');
  LineWriter writer(file);
  {
    SupervisorOptions options;
    options.writers[0] = &writer;
    options.take_line = [&](size_t child, Stream, std::string_view line) {
      writer.add(child == 0 ? "0: " : "1: ", line);
    };
    Supervisor supervisor(options);
    for (const auto& text : {a, b})
      supervisor.start(shell("for i in $(seq 1 3000); do echo " + text + "; done"));
    supervisor.wait();
  }
  ::close(file);
  std::ifstream text(folder / "log");
  int count[2] = {0, 0}, torn = 0;
  for (std::string line; std::getline(text, line);) {
    if (line == "0: " + a)
      ++count[0];
    else if (line == "1: " + b)
      ++count[1];
    else
      ++torn;
  }
  CHECK(torn == 0);
  CHECK(count[0] == 3000);
  CHECK(count[1] == 3000);
}

TEST_CASE("children outlive the reader of their lines", "[process]") {
  Pipe pipe;
  pipe.close_reader();
  Written written(pipe.writer());
  written.run({"for i in $(seq 1 20); do seq 1 1000; sleep 0.01; done; exit 3"});
  CHECK(written.supervisor.status(0) == 3);
}

TEST_CASE("no line is lost where a descriptor does not block and its reader is slow", "[process]") {
  Pipe pipe;
  ::fcntl(pipe.writer(), F_SETFL, O_NONBLOCK);
  auto text = std::async(std::launch::async, [&] { return pipe.read_all(0.001); });
  Written written(pipe.writer());
  written.run({"seq 1 100000"});
  pipe.close_writer();
  std::string wanted;
  for (int i = 1; i <= 100000; ++i) wanted += "0: " + std::to_string(i) + "\n";
  CHECK(text.get() == wanted);
}

TEST_CASE("signals are passed on while nobody reads what children write", "[process]") {
  Pipe pipe;
  Written written(pipe.writer());
  written.supervisor.start(shell("trap 'exit 7' INT; echo $$; while :; do yes; done"));
  std::string head;
  bool ended = false;
  std::thread asks([&] {
    while (head.find('\n') == std::string::npos) head += pipe.read();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // until the pipe is full
    ::kill(::getpid(), SIGINT);
    ended = ends_soon(std::stoi(head.substr(head.find(' '))));
    pipe.read_all(0);
  });
  written.supervisor.wait();
  pipe.close_writer();
  asks.join();
  CHECK(ended);
  CHECK(written.supervisor.status(0) == 7);
}

TEST_CASE("once its children have ended, a supervisor gives up on lines when it is asked to end",
          "[process]") {
  Pipe pipe;
  Written written(pipe.writer());
  const TemporaryFolder folder;
  written.supervisor.start(shell("seq 1 50000; touch '" + (folder / "over").string() + "'"));
  std::thread asks([&] {
    wait_for_file(folder / "over");
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    ::kill(::getpid(), SIGTERM);
  });
  written.supervisor.wait();
  asks.join();
  CHECK(written.supervisor.status(0) == 0);
}

TEST_CASE("a child has its words, environment and folder, and no descriptors of others",
          "[process]") {
  const TemporaryFolder folder;
  const auto before = open_descriptors();
  ::setenv("COMPOSER_TEST_KEPT", "kept", 1);
  ::setenv("COMPOSER_TEST_REPLACED", "old", 1);
  Heard heard;
  heard.supervisor.start(shell("sleep 0.2"));  // its pipes are open meanwhile
  heard.supervisor.start(
      {fs::relative("/bin/sh"),
       {"-c",
        "echo \"$1|$2\"; echo $COMPOSER_TEST_KEPT $COMPOSER_TEST_REPLACED $COMPOSER_TEST_ADDED; "
        "pwd "
        "-P; [ $(cut -d' ' -f5 /proc/$$/stat) != $$ ] || echo own group; for n in $(seq 3 99); do "
        "[ ! -e /proc/$$/fd/$n ] || echo descriptor $n; done",
        "name", "two words", "*"},
       {{"COMPOSER_TEST_REPLACED", "new"}, {"COMPOSER_TEST_ADDED", "a b"}},
       folder.path()});
  heard.supervisor.wait();
  Lines wanted{"two words|*", "kept new a b", fs::canonical(folder.path()).string(), "own group"};
  for (const int n : before)
    if (n > 2 && n < 100 && (::fcntl(n, F_GETFD) & FD_CLOEXEC) == 0)
      wanted.push_back("descriptor " + std::to_string(n));
  CHECK(heard.lines[1] == wanted);
}

TEST_CASE("the first child that fails ends the others, by force those that do not listen",
          "[process]") {
  const TemporaryFolder folder;
  const auto d = folder.path().string();
  SupervisorOptions options;
  options.grace_seconds = 2;
  Heard heard(options);
  const double begin = steady_seconds();
  heard.run({"until [ -e " + d + "/2 ] && [ -e " + d + "/3 ]; do sleep 0.02; done; exit 3",
             "exec sleep 100", "trap '' TERM; touch " + d + "/2; while :; do sleep 100; done",
             "exec 2>/dev/null; trap 'echo saved; exit 0' TERM; touch " + d +
                 "/3; while :; do sleep 0.05; done"});
  CHECK(steady_seconds() - begin < 20);
  CHECK(heard.supervisor.status(0) == 3);
  CHECK(heard.supervisor.status(1) == 143);
  CHECK(heard.supervisor.status(2) == 137);
  CHECK(heard.supervisor.status(3) == 0);
  CHECK(heard.lines[3] == Lines{"saved"});
  CHECK(heard.supervisor.status() == 3);
}

TEST_CASE("what a child leaves behind ends with it", "[process]") {
  Heard heard;
  heard.run({"sleep 1000 & echo $!"});
  CHECK(heard.supervisor.status() == 0);
  REQUIRE(heard.lines[0].size() == 1);
  CHECK(ends_soon(std::stoi(heard.lines[0][0])));
}

TEST_CASE("what saves behind a shell may take its time, but no longer than the grace time",
          "[process]") {
  SupervisorOptions options;
  options.grace_seconds = 2;
  int ready = 0;
  Heard heard(options, [&](const std::string& line) {
    if (line == "ready" && ++ready == 2) ::kill(::getpid(), SIGTERM);
  });
  const auto behind_a_shell = [](const std::string& script) {
    return "exec 2>/dev/null; (" + script + "; echo ready; while :; do sleep 0.05; done); true";
  };
  heard.run({behind_a_shell("trap 'sleep 0.5; echo saved; exit 0' TERM"),
             behind_a_shell("trap 'echo deaf' TERM")});
  CHECK(heard.lines[0] == Lines{"ready", "saved"});
  CHECK(heard.lines[1] == Lines{"ready", "deaf"});
  CHECK(heard.supervisor.status(0) == 143);
  CHECK(heard.supervisor.status(1) == 143);
}

TEST_CASE("a child that leaves its group is ended with the others", "[process]") {
  SupervisorOptions options;
  options.grace_seconds = 0.2;
  Heard heard(options);
  heard.run({"exec perl -e '$SIG{TERM} = \"IGNORE\"; setpgrp 0, getpgrp getppid; sleep 100'",
             "sleep 1; exit 3"});
  CHECK(heard.supervisor.status(0) == 137);
  CHECK(heard.supervisor.status() == 3);
}

TEST_CASE("a terminal's stop does not stay where nobody could continue", "[process]") {
  const TemporaryFolder folder;
  auto command = shell("kill -TSTP $PPID; sleep 0.3; echo $$ > child; mv child ended");
  command.folder = folder.path();
  ChildProcess supervises([&] {
    ::setsid();  // its group is an orphaned one then
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);  // a handler would end the pause of this thread
    return std::make_unique<std::thread>([&, all] {
      ::pthread_sigmask(SIG_UNBLOCK, &all, nullptr);
      Supervisor supervisor;
      supervisor.start(command);
      supervisor.wait();
    });
  });
  for (int i = 0; i < 500 && !fs::exists(folder / "ended"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(fs::exists(folder / "ended"));
}

TEST_CASE("children do not outlive a supervisor, however that ends", "[process]") {
  const TemporaryFolder folder;
  const auto begin = [&] {
    auto supervisor = std::make_unique<Supervisor>();
    auto command = shell("trap '' TERM INT HUP; echo $$ > child; mv child id; exec sleep 1000");
    command.folder = folder.path();
    supervisor->start(command);
    while (!fs::exists(folder / "id")) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return supervisor;
  };
  pid_t id = 0;
  {
    ChildProcess killed(begin);
    std::ifstream(folder / "id") >> id;
    REQUIRE(id > 0);
    CHECK_FALSE(is_gone(id));
  }
  CHECK(ends_soon(id));
}

TEST_CASE("signals reach every child once, with their number", "[process]") {
  const int signal = GENERATE(SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2);
  CAPTURE(signal);
  const auto hangup = std::signal(SIGHUP, SIG_DFL);  // ignored under nohup, and a shell keeps that
  int ready = 0;
  Heard heard({}, [&](const std::string& line) {
    if (line != "ready" || ++ready < 2) return;
    ::kill(::getpid(), signal);
    // A shell signals a process, and then its group.
    if (signal == SIGINT || signal == SIGTERM) ::kill(::getpid(), signal);
  });
  const std::string script =
      "exec 2>/dev/null; n=; for s in INT TERM HUP QUIT USR1 USR2; do trap \"echo $s; n=1\" $s; "
      "done; "
      "echo ready; i=0; until [ \"$n\" ] || [ $((i += 1)) = 200 ]; do sleep 0.1; done; sleep 0.3";
  heard.run({script, script});
  std::signal(SIGHUP, hangup);
  const std::map<int, std::string> names{{SIGINT, "INT"},   {SIGTERM, "TERM"}, {SIGHUP, "HUP"},
                                         {SIGQUIT, "QUIT"}, {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}};
  for (const size_t child : {0, 1}) CHECK(heard.lines[child] == Lines{"ready", names.at(signal)});
  CHECK(heard.supervisor.status() == 0);
}

TEST_CASE("children that are asked to end take their time, until they are asked again",
          "[process]") {
  SupervisorOptions options;
  options.grace_seconds = 0.2;
  int ready = 0;
  Heard heard(options, [&](const std::string& line) {
    if ((line == "ready" && ++ready == 3) || line == "again") ::kill(::getpid(), SIGINT);
  });
  heard.run(
      {"exec 2>/dev/null; trap 'sleep 0.4; echo saved; exit 130' INT; echo ready; "
       "while :; do sleep 0.05; done",
       "trap '' INT; echo ready; sleep 0.8; echo waited",
       "trap '' INT; echo ready; sleep 1; echo again; while :; do sleep 100; done"});
  CHECK(heard.lines[0] == Lines{"ready", "saved"});
  CHECK(heard.supervisor.status(0) == 130);
  CHECK(heard.lines[1] == Lines{"ready", "waited"});
  CHECK(heard.supervisor.status(1) == 0);
  CHECK(heard.supervisor.status(2) == 137);
  CHECK(heard.supervisor.status() == 130);
}

TEST_CASE("what cannot be started is told by name", "[process]") {
  const TemporaryFolder folder;
  const auto executable = [&](const char* name, const std::string& text) {
    const auto path = folder.write(name, text);
    fs::permissions(path, fs::perms::owner_all);
    return path;
  };
  Heard heard;
  const auto start = [&](const fs::path& program) {
    heard.supervisor.start({program, {}, {}, {}});
  };
  CHECK_THROWS_AS(start(folder / "nothing"), UserError);
  CHECK_THROWS_WITH(start(folder / "nothing"),
                    Contains("/nothing: cannot be started: No such file"));
  CHECK_THROWS_WITH(start(folder.write("text", "text")),
                    Contains("/text: cannot be started: Permission denied"));
  CHECK_THROWS_WITH(start(executable("noise", "\x01\x02\x03")), Contains("it is no program"));
  CHECK_THROWS_WITH(start(executable("script", "#!/nowhere/sh\n")),
                    Contains("/script: cannot be started: the interpreter"));
  auto elsewhere = shell("true");
  elsewhere.folder = folder / "missing";
  CHECK_THROWS_WITH(heard.supervisor.start(elsewhere), Contains("/missing: cannot be entered"));
  // The others go on.
  heard.run({"echo on"});
  CHECK(heard.lines[0] == Lines{"on"});
}

TEST_CASE("a first request to end is enforced where that is asked", "[supervisor]") {
  SupervisorOptions options;
  options.first_grace_seconds = 0.3;
  Heard heard(options, [](const std::string& line) {
    if (line == "ready") ::raise(SIGTERM);
  });
  heard.run({"trap '' TERM; echo ready; while true; do sleep 0.05; done"});
  CHECK(heard.supervisor.status(0) == 128 + SIGKILL);
  CHECK(heard.supervisor.asked_by() == SIGTERM);
  CHECK(heard.supervisor.failed().empty());
}

TEST_CASE("children that are to be killed are spared for a while", "[supervisor]") {
  const TemporaryFolder folder;
  const auto go = (folder / "go").string();
  int asked = 0;
  bool for_ever = true;
  SupervisorOptions options;
  options.first_grace_seconds = 0.05;
  options.spared_until = [&](double since) {
    CHECK(since <= steady_seconds());
    if (for_ever && ++asked == 6) folder.write("go", "");
    return for_ever ? steady_seconds() + 0.05 : 0;
  };
  const auto end_at_once = [](const std::string& line) {
    if (line == "ready") ::raise(SIGTERM);
  };
  const auto script = "trap '' TERM; echo ready; until [ -e " + go + " ]; do sleep 0.02; done";
  {
    Heard heard(options, end_at_once);
    heard.run({script});
    CHECK(heard.supervisor.status(0) == 0);
    CHECK(asked >= 6);
  }
  fs::remove(go);
  for_ever = false;
  Heard heard(options, end_at_once);
  heard.run({script});
  CHECK(heard.supervisor.status(0) == 128 + SIGKILL);
}

TEST_CASE("a child that ends by itself as if it were asked to ends the others", "[supervisor]") {
  SupervisorOptions options;
  options.first_grace_seconds = 1;
  options.fails = [](int status) { return status != 128 + SIGTERM; };
  Heard heard(options);
  const TemporaryFolder folder;
  const auto ready = (folder / "ready").string();
  heard.run({"until [ -e " + ready + " ]; do sleep 0.02; done; kill -TERM $$", "exec sleep 100",
             "trap '' TERM; touch " + ready + "; while :; do sleep 0.05; done"});
  CHECK(heard.supervisor.status(1) == 128 + SIGTERM);
  CHECK(heard.supervisor.status(2) == 128 + SIGKILL);
  CHECK(heard.supervisor.failed().empty());
}

TEST_CASE("who fails while the others settle is noted, in the order of failures", "[supervisor]") {
  SupervisorOptions options;
  options.settle_seconds = 5;
  options.fails = [](int status) { return status != 0 && status != 4; };
  Heard heard(options);
  const double begin = steady_seconds();
  heard.run({"sleep 0.4; exit 2", "exit 3", "exit 4", "sleep 0.8"});
  CHECK(heard.supervisor.failed() == std::vector<size_t>{1, 0});
  CHECK(heard.supervisor.status(3) == 0);
  CHECK(steady_seconds() - begin < 5);
}

TEST_CASE("a supervisor looks around while children run, and can be told to end", "[supervisor]") {
  int looks = 0;
  Supervisor* running = nullptr;
  SupervisorOptions options;
  options.look = [&] {
    if (++looks == 3) running->end();
  };
  Supervisor supervisor(options);
  running = &supervisor;
  supervisor.start(shell("exec sleep 100"));
  supervisor.wait();
  CHECK(looks == 3);
  CHECK(supervisor.status(0) == 128 + SIGTERM);
  CHECK(supervisor.failed().empty());
}

}  // namespace composer::supervisor_test
