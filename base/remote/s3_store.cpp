#include "base/remote/s3_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>

#include "base/error.h"
#include "base/log.h"
#include "base/remote/aws_profile.h"
#include "base/remote/leaving.h"
#include "base/remote/remote_path.h"
#include "base/remote/store_reply.h"
#include "base/several_threads.h"
#include "base/text.h"

namespace composer {
namespace {

constexpr const char* kRegionWhereNoneIsNamed = "us-east-1";
constexpr uint64_t kWholeBytes = 32 << 20;  ///< larger objects are written in parts
constexpr uint64_t kPartBytes = 16 << 20;
constexpr uint64_t kMostParts = 10'000;   ///< S3's limit
constexpr uint64_t kWriters = 4;          ///< parts of one object that are sent at a time
constexpr int64_t kOtherSeconds = 30;     ///< a difference of clocks worth another signature
constexpr double kCompleteSeconds = 600;  ///< large objects take the store minutes

/// Whether the bucket's name can be a part of the host's name. Certificates do not cover names with
/// dots.
bool fits_host(const std::string& bucket) {
  return bucket.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == bucket.npos &&
         bucket.size() <= 63;
}

/// The URL as libcurl sends the host's name: without a default port.
std::string without_default_port(std::string url) {
  const std::string_view port = url.starts_with("https://") ? ":443" : ":80";
  if (url.ends_with(port)) url.erase(url.size() - port.size());
  return url;
}

class File {
 public:
  explicit File(const std::filesystem::path& path)
      : path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (file_ < 0) fail();
  }
  ~File() { ::close(file_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void read(uint64_t begin, std::span<uint8_t> into) const {
    while (!into.empty()) {
      const ssize_t got = ::pread(file_, into.data(), into.size(), static_cast<off_t>(begin));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail();
      if (got == 0) throw RunError(path_.string() + ": it became shorter while it was uploaded");
      begin += static_cast<uint64_t>(got);
      into = into.subspan(static_cast<size_t>(got));
    }
  }

 private:
  [[noreturn]] void fail() const {
    throw RunError(path_.string() + ": cannot be read: " + std::strerror(errno));
  }

  std::filesystem::path path_;
  int file_;
};

}  // namespace

S3Endpoint s3_endpoint(const RemoteOptions& options) {
  S3Endpoint endpoint{options.endpoint_url, aws_region(options.region)};
  std::string from = "remote.endpoint_url";
  for (const char* name : {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}) {
    if (!endpoint.endpoint_url.empty()) break;
    endpoint.endpoint_url = environment_value(name);
    from = name;
  }
  if (endpoint.endpoint_url.empty()) {
    const AwsProfile profile = read_aws_profile();
    endpoint.endpoint_url = profile.value("endpoint_url");
    from = "endpoint_url of profile " + profile.name;
  }
  while (endpoint.endpoint_url.ends_with('/')) endpoint.endpoint_url.pop_back();
  if (!endpoint.endpoint_url.empty()) {
    const bool right = is_remote(endpoint.endpoint_url) &&
                       RemotePath(endpoint.endpoint_url).scheme() != RemotePath::Scheme::s3 &&
                       RemotePath(endpoint.endpoint_url).userinfo().empty() &&
                       endpoint.endpoint_url.find('?') == std::string::npos;
    if (!right)
      throw UserError(from + ": https://host[:port] is right, without user, password or query");
  }
  return endpoint;
}

S3Store::S3Store(std::string bucket, S3Endpoint endpoint, CredentialSource& credentials,
                 Patience patience)
    : bucket_(std::move(bucket)),
      endpoint_(std::move(endpoint)),
      credentials_(credentials),
      requests_(patience) {}

std::string S3Store::text(const std::string& key) const {
  return RemotePath("s3://" + bucket_).with_key(key).text();
}

std::string S3Store::region() {
  const std::lock_guard lock(mutex_);
  if (!told_region_.empty()) return told_region_;
  return endpoint_.region.empty() ? kRegionWhereNoneIsNamed : endpoint_.region;
}

HttpRequest S3Store::signed_request(const Call& call, const std::string& hash, Signing& signing) {
  signing = {credentials_.current(endpoint_.region), region(), seconds_ahead_};
  const auto& [by, request_region, seconds_ahead] = signing;
  std::string url = endpoint_.endpoint_url, path;
  bool in_path = true;
  if (url.empty()) {
    in_path = !fits_host(bucket_);
    url = "https://" + (in_path ? "" : bucket_ + ".") + amazon_host("s3", request_region);
  }
  const size_t host_begin = url.find("://") + 3;
  const size_t host_end = std::min(url.find('/', host_begin), url.size());
  const std::string host = without_default_port(url.substr(0, host_end)).substr(host_begin);
  path = url.substr(host_end);
  if (in_path) path += "/" + bucket_;
  path += "/" + percent_encoded(call.key, "/");
  HttpRequest request;
  request.method = call.method;
  request.url = url.substr(0, host_end) + path;
  if (!call.query.empty()) request.url += "?" + canonical_query(call.query);
  request.body = call.body;
  request.into = call.into;
  request.quiet_seconds = call.quiet_seconds;
  request.headers = call.headers;
  if (by.anonymous()) return request;
  const std::time_t now = std::time(nullptr) + static_cast<std::time_t>(seconds_ahead);
  request.headers.emplace_back("x-amz-date", amazon_time(now));
  request.headers.emplace_back("x-amz-content-sha256", hash);
  if (!by.token.empty()) request.headers.emplace_back("x-amz-security-token", by.token);
  SignedRequest to_sign{call.method, path, call.query, request.headers, hash};
  to_sign.headers.emplace_back("host", host);
  request.headers.emplace_back(
      "Authorization", authorization(to_sign, {by.key_id, by.secret, request_region, "s3"}, now));
  return request;
}

bool S3Store::may_pass(const HttpReply& reply, const Signing& signing) {
  if (reply.succeeded()) return false;
  const StoreProblem problem = read_problem(reply.body);
  if (problem.code == "RequestTimeout") return true;
  if (problem.code == "RequestTimeTooSkewed") {
    const auto date = read_date(reply.header("date"));
    if (!date) return false;
    seconds_ahead_ = *date - std::time(nullptr);
    return std::abs(seconds_ahead_ - signing.seconds_ahead) >= kOtherSeconds;
  }
  if (problem.code == "ExpiredToken" || problem.code == "TokenRefreshRequired")
    return credentials_.renew(signing.by, endpoint_.region);
  std::string bucket_region = reply.header("x-amz-bucket-region");
  if (bucket_region.empty()) bucket_region = problem.region;
  if (!endpoint_.region.empty() || !is_region(bucket_region) || bucket_region == signing.region)
    return false;
  const std::lock_guard lock(mutex_);
  told_region_ = bucket_region;
  return true;
}

HttpReply S3Store::send(const Call& call) {
  Signing signing;
  const bool plain = endpoint_.endpoint_url.starts_with("http://");
  const std::string hash = plain ? payload_hash(call.body) : std::string(kUnsignedPayload);
  StoreRequests::Call sent;
  sent.text = text(call.key);
  sent.request = [&] { return signed_request(call, hash, signing); };
  sent.may_pass = [&](const HttpReply& reply) { return may_pass(reply, signing); };
  sent.is_read = !call.into.empty();
  HttpReply reply = requests_.send(sent);
  if (reply.succeeded()) bucket_seen_ = true;
  return reply;
}

HttpReply S3Store::expect(const Call& call) {
  HttpReply reply = send(call);
  if (!reply.succeeded()) refuse(call, reply);
  return reply;
}

void S3Store::refuse(const Call& call, const HttpReply& reply) {
  const StoreProblem problem = read_problem(reply.body);
  const std::string path = text(call.key), what = problem_text(reply);
  std::string bucket_region = reply.header("x-amz-bucket-region");
  if (bucket_region.empty()) bucket_region = problem.region;
  const bool elsewhere = reply.status == 301 || reply.status == 307 ||
                         problem.code == "PermanentRedirect" ||
                         problem.code == "AuthorizationHeaderMalformed" ||
                         problem.code == "IllegalLocationConstraintException";
  if (elsewhere || (reply.status == 400 && !bucket_region.empty() && bucket_region != region()))
    throw UserError(path + ": the bucket is not in region " + region() +
                    (bucket_region.empty() ? "; set AWS_REGION or remote.region to its own"
                                           : " but in " + bucket_region +
                                                 "; set AWS_REGION or remote.region to that") +
                    " (" + what + ")");
  if (problem.code == "NoSuchBucket")
    throw UserError(path + ": there is no bucket '" + bucket_ + "'" +
                    (endpoint_.endpoint_url.empty() ? "" : " at " + endpoint_.endpoint_url) + " (" +
                    what + ")");
  if (reply.status == 404) throw UserError(path + ": there is no such object (" + what + ")");
  if (reply.status == 401 || reply.status == 403 ||
      problem.code.find("Token") != std::string::npos) {
    const Credentials by = credentials_.current(endpoint_.region);
    const std::string who = by.anonymous() ? "no credentials were found: set AWS_ACCESS_KEY_ID and "
                                             "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
                                           : "the credentials come from " + by.source;
    const bool expired = problem.code == "ExpiredToken" && !by.anonymous() && !by.expires;
    throw UserError(path + ": the store refuses " + call.method + " (" + what + "); " + who +
                    (expired ? ", and are not renewed; those of a profile with "
                               "credential_process are, while a run lasts"
                             : ""));
  }
  if (reply.status == 400 || reply.status == 405 || reply.status == 501)
    throw UserError(path + ": the store cannot do " + call.method + " (" + what + ")");
  throw RunError(path + ": the store answers " + call.method + " with " + what);
}

std::optional<ObjectInfo> S3Store::stat(const std::string& key) {
  const Call call{.method = "HEAD", .key = key};
  HttpReply reply = send(call);
  if (reply.status == 404 && bucket_seen_) return std::nullopt;
  if (!reply.succeeded()) {
    // A GET tells why: answers to HEAD have no body.
    const HttpReply why = send({.key = key, .headers = {{"range", "bytes=0-0"}}});
    if (why.status == 404 && read_problem(why.body).code != "NoSuchBucket") {
      bucket_seen_ = true;
      return std::nullopt;
    }
    if (!why.succeeded()) refuse(call, why);
    // The GET has corrected the region, the clock or the credentials.
    reply = expect(call);
  }
  return described(key, text(key), reply);
}

void S3Store::read(const ObjectInfo& info, uint64_t begin, std::span<uint8_t> into) {
  if (into.empty()) return;
  const std::string path = text(info.key);
  Call call{.key = info.key,
            .headers = {{"range", range_header(path, info, begin, into.size())}},
            .into = into};
  if (info.etag.starts_with('"')) call.headers.emplace_back("if-match", info.etag);
  const HttpReply reply = send(call);
  refuse_changed(path, reply);
  if (!reply.succeeded()) refuse(call, reply);
  check_read(path, info, begin, into.size(), reply);
}

void S3Store::list_pages(const std::string& prefix, const std::string& delimiter,
                         const std::function<void(ListingPage&)>& add) {
  std::string next;
  for (;;) {
    Call call;
    call.query = {{"list-type", "2"}, {"encoding-type", "url"}, {"prefix", prefix}};
    if (!delimiter.empty()) call.query.emplace_back("delimiter", delimiter);
    if (!next.empty()) call.query.emplace_back("continuation-token", next);
    const HttpReply reply = expect(call);
    try {
      ListingPage page = read_listing(reply.body);
      add(page);
      if (page.next.empty()) return;
      if (page.next == next) throw RunError("the listing does not advance");
      next = page.next;
    } catch (const RunError& error) {
      throw RunError(text(prefix) + ": " + error.what());
    }
  }
}

std::vector<ObjectInfo> S3Store::list(const std::string& prefix) {
  std::vector<ObjectInfo> objects;
  list_pages(prefix, "", [&](ListingPage& page) {
    std::move(page.objects.begin(), page.objects.end(), std::back_inserter(objects));
  });
  std::ranges::sort(objects, {}, &ObjectInfo::key);
  return objects;
}

std::vector<std::string> S3Store::list_folder(const std::string& prefix) {
  std::vector<std::string> names;
  list_pages(prefix, "/", [&](ListingPage& page) {
    for (auto& object : page.objects)
      if (object.key != prefix) names.push_back(std::move(object.key));
    std::move(page.folders.begin(), page.folders.end(), std::back_inserter(names));
  });
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

void S3Store::write(const std::string& key, const std::filesystem::path& file) {
  const File source(file);
  const uint64_t bytes = std::filesystem::file_size(file);
  if (bytes > kWholeBytes)
    return write_parts(key, bytes,
                       [&](uint64_t begin, std::span<uint8_t> into) { source.read(begin, into); });
  std::vector<uint8_t> content(bytes);
  source.read(0, content);
  write(key, std::span<const uint8_t>(content));
}

void S3Store::write(const std::string& key, std::span<const uint8_t> bytes) {
  if (bytes.size() <= kWholeBytes) {
    expect({.method = "PUT", .key = key, .body = bytes});
    return;
  }
  write_parts(key, bytes.size(), [&](uint64_t begin, std::span<uint8_t> into) {
    std::memcpy(into.data(), bytes.data() + begin, into.size());
  });
}

void S3Store::write_parts(const std::string& key, uint64_t bytes, const ReadBytes& read_bytes) {
  const uint64_t least = (bytes + kMostParts - 1) / kMostParts;
  const uint64_t part = std::max(kPartBytes, (least + (1 << 20) - 1) >> 20 << 20);
  const size_t parts = static_cast<size_t>((bytes + part - 1) / part);
  const HttpReply begun = expect({.method = "POST", .key = key, .query = {{"uploads", ""}}});
  const std::string upload = read_upload_id(begun.body);
  try {
    std::vector<std::string> etags(parts);
    const auto& leaving = LeaveWhen::flag();
    const auto write_part = [&](uint64_t i) {
      const LeaveWhen same(leaving);
      const uint64_t begin = i * part;
      std::vector<uint8_t> content(std::min(part, bytes - begin));
      read_bytes(begin, content);
      const HttpReply reply =
          expect({.method = "PUT",
                  .key = key,
                  .query = {{"partNumber", std::to_string(i + 1)}, {"uploadId", upload}},
                  .body = content});
      etags[i] = reply.header("etag");
      if (etags[i].empty() || etags[i].find_first_of("<&") != std::string::npos)
        throw RunError(text(key) + ": the store took a part of it without an ETag");
    };
    in_several_threads(parts, write_part, kWriters);
    complete(key, upload, bytes, etags);
  } catch (...) {
    try {
      send({.method = "DELETE", .key = key, .query = {{"uploadId", upload}}});
    } catch (const std::exception& error) {
      log::warn(text(key) + ": the parts of a failed upload stay in the store: " + error.what());
    }
    throw;
  }
}

void S3Store::complete(const std::string& key, const std::string& upload, uint64_t bytes,
                       const std::vector<std::string>& etags) {
  std::string list = "<CompleteMultipartUpload>";
  for (size_t i = 0; i < etags.size(); ++i)
    list += "<Part><PartNumber>" + std::to_string(i + 1) + "</PartNumber><ETag>" + etags[i] +
            "</ETag></Part>";
  list += "</CompleteMultipartUpload>";
  const Call call{.method = "POST",
                  .key = key,
                  .query = {{"uploadId", upload}},
                  .headers = {{"content-type", "application/xml"}},
                  .body = {reinterpret_cast<const uint8_t*>(list.data()), list.size()},
                  .quiet_seconds = kCompleteSeconds};
  // An answer of status 200 may still have an error: it begins before the parts are joined.
  constexpr int kTries = 3;
  for (int i = 1;; ++i) {
    const HttpReply reply = send(call);
    const StoreProblem problem = read_problem(reply.body);
    if (reply.succeeded() && problem.code.empty()) return;
    if (problem.code == "NoSuchUpload") {
      // An earlier, lost answer may have been a success.
      const auto info = stat(key);
      if (info && info->bytes == bytes) return;
    }
    if (!reply.succeeded()) refuse(call, reply);
    if (i == kTries) throw RunError(text(key) + ": the store answers " + problem_text(reply));
  }
}

void S3Store::remove(const std::string& key) {
  const Call call{.method = "DELETE", .key = key};
  const HttpReply reply = send(call);
  if (!reply.succeeded() &&
      (reply.status != 404 || read_problem(reply.body).code == "NoSuchBucket"))
    refuse(call, reply);
}

}  // namespace composer
