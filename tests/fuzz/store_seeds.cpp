#include "tests/fuzz/seeds.h"

namespace composer::test {

std::vector<std::string> store_reply_seeds() {
  const std::string head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  const std::string object =
      "<Contents><Key>a+b%2F%C3%BC</Key><LastModified>2026-11-23T03:04:05.000Z</LastModified>"
      "<ETag>&quot;0123456789abcdef0123456789abcdef&quot;</ETag><Size>1234567</Size>"
      "<StorageClass>STANDARD</StorageClass></Contents>";
  return {
      "listing\n" + head +
          "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name>"
          "<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
          "<NextContinuationToken>1ueG/=</NextContinuationToken>" +
          object + object + "<CommonPrefixes><Prefix>c/</Prefix></CommonPrefixes>" +
          "</ListBucketResult>",
      "listing\n<r:ListBucketResult xmlns:r='x'><!-- c --><Contents><Key>&#x41;&amp;<![CDATA[<]]>"
      "</Key><Size>0</Size></Contents></r:ListBucketResult>",
      "upload\n" + head +
          "<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><UploadId>VXBsb2Fk"
          "</UploadId></InitiateMultipartUploadResult>",
      "problem\n" + head +
          "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message>"
          "<Region>eu-west-1</Region><HostId>x/y=</HostId></Error>",
      "problem\n<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>",
      "range\nbytes 1048576-2097151/1234567890",
      "range\nbytes 0-0/*",
      "length\n18446744073709551614",
      "date\nTue, 15 Nov 1994 08:12:31 GMT",
      "retry\n120",
      "profile\n# c\n[default]\naws_access_key_id = A\nregion=eu-west-1 # c\n[profile w]\ns3 =\n  "
      "a "
      "= b\n",
      "manifest\n# photographs\ncat/1.jpg\r\ncat/a b.jpg \n\ndog/..2.jpg\n./x.png",
      "manifest\na\n../b\n/c\ns3://d/e\nf/../../g",
      "path\ns3://bucket/a folder/key.beton",
      "path\nhttps://user:pass@host.example:8443/a%20b/c?X-Amz-Signature=12&x=y",
      "path\nhttp://[::1]:80/x",
  };
}

}  // namespace composer::test
