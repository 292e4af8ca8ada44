#include "tests/remote/memory_store.h"

#include <cstdio>
#include <functional>
#include <set>

#include "base/remote/remote_path.h"

namespace composer::test {
namespace {

std::string etag_of(const std::string& content) {
  char hash[33];
  std::snprintf(hash, sizeof hash, "%016zx%016zx", std::hash<std::string>{}(content),
                content.size());
  return '"' + std::string(hash) + '"';
}

}  // namespace

ServerReply error_reply(int status, const std::string& code, const std::string& message,
                        const std::string& more) {
  return {.status = status,
          .headers = {{"Content-Type", "application/xml"}},
          .body = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>" + code +
                  "</Code><Message>" + message + "</Message>" + more + "</Error>"};
}

MemoryStore::MemoryStore(std::string bucket)
    : bucket_(std::move(bucket)),
      server_([this](const ServerRequest& request) { return answer(request); }) {}

void MemoryStore::put(const std::string& key, const std::string& content) {
  const std::lock_guard lock(mutex_);
  objects_[key] = content;
}

std::optional<std::string> MemoryStore::get(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(key);
  if (found == objects_.end()) return std::nullopt;
  return found->second;
}

void MemoryStore::remove(const std::string& key) {
  const std::lock_guard lock(mutex_);
  objects_.erase(key);
}

std::vector<std::string> MemoryStore::keys() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> keys;
  for (const auto& [key, content] : objects_) keys.push_back(key);
  return keys;
}

size_t MemoryStore::open_uploads() const {
  const std::lock_guard lock(mutex_);
  return uploads_.size();
}

void MemoryStore::set_interference(
    std::function<std::optional<ServerReply>(const ServerRequest&)> interference) {
  const std::lock_guard lock(mutex_);
  interference_ = std::move(interference);
}

ServerReply MemoryStore::answer(const ServerRequest& request) {
  std::function<std::optional<ServerReply>(const ServerRequest&)> interference;
  {
    const std::lock_guard lock(mutex_);
    interference = interference_;
  }
  if (interference)
    if (auto reply = interference(request)) return *reply;
  const std::string path = percent_decoded(request.path), folder = "/" + bucket_ + "/";
  if (!path.starts_with(folder)) {
    auto reply = error_reply(404, "NoSuchBucket", "The specified bucket does not exist");
    return reply;
  }
  const std::string key = path.substr(folder.size());
  const std::lock_guard lock(mutex_);
  const std::string upload = request.parameter("uploadId");
  if (request.method == "GET" && key.empty()) return list(request);
  if (request.method == "POST" && request.has_parameter("uploads")) {
    const std::string id = "upload-" + std::to_string(++begun_);
    uploads_[id];
    return {.body = "<InitiateMultipartUploadResult><UploadId>" + id +
                    "</UploadId></InitiateMultipartUploadResult>"};
  }
  if (!upload.empty()) {
    if (!uploads_.contains(upload))
      return error_reply(404, "NoSuchUpload", "The specified upload does not exist");
    if (request.method == "PUT") {
      uploads_[upload][std::stoi(request.parameter("partNumber"))] = request.body;
      return {.headers = {{"ETag", etag_of(request.body)}}};
    }
    if (request.method == "DELETE") {
      uploads_.erase(upload);
      return {.status = 204};
    }
    std::string whole;
    for (const auto& [number, part] : uploads_[upload]) {
      if (request.body.find(etag_of(part)) == std::string::npos)
        return error_reply(400, "InvalidPart", "One of the parts is not there");
      whole += part;
    }
    objects_[key] = whole;
    uploads_.erase(upload);
    return {.body = "<CompleteMultipartUploadResult><ETag>" + etag_of(whole) +
                    "</ETag></CompleteMultipartUploadResult>"};
  }
  if (request.method == "PUT") {
    objects_[key] = request.body;
    return {.headers = {{"ETag", etag_of(request.body)}}};
  }
  if (request.method == "DELETE") {
    objects_.erase(key);
    return {.status = 204};
  }
  const auto found = objects_.find(key);
  if (found == objects_.end())
    return error_reply(404, "NoSuchKey", "The specified key does not exist.");
  return ranged_reply(request, found->second, etag_of(found->second));
}

ServerReply MemoryStore::list(const ServerRequest& request) const {
  const std::string prefix = request.parameter("prefix"),
                    delimiter = request.parameter("delimiter");
  const std::string after = percent_decoded(request.parameter("continuation-token"));
  std::string entries, last;
  std::set<std::string> folders;
  size_t count = 0;
  bool more = false;
  for (const auto& [key, content] : objects_) {
    if (!key.starts_with(prefix) || (!after.empty() && key <= after)) continue;
    if (count == page_keys) {
      more = true;
      break;
    }
    ++count;
    last = key;
    const size_t slash = delimiter.empty() ? std::string::npos : key.find(delimiter, prefix.size());
    if (slash != std::string::npos) {
      folders.insert(key.substr(0, slash + 1));
      continue;
    }
    entries += "<Contents><Key>" + percent_encoded(key, "/") + "</Key><Size>" +
               std::to_string(content.size()) + "</Size><ETag>&quot;" +
               etag_of(content).substr(1, 32) + "&quot;</ETag></Contents>";
  }
  for (const auto& folder : folders)
    entries +=
        "<CommonPrefixes><Prefix>" + percent_encoded(folder, "/") + "</Prefix></CommonPrefixes>";
  return {.body =
              "<?xml version=\"1.0\"?><ListBucketResult "
              "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><EncodingType>url"
              "</EncodingType><IsTruncated>" +
              std::string(more ? "true" : "false") + "</IsTruncated>" +
              (more ? "<NextContinuationToken>" + percent_encoded(last) + "</NextContinuationToken>"
                    : "") +
              entries + "</ListBucketResult>"};
}

}  // namespace composer::test
