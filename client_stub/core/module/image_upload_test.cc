#include "client_stub/core/module/image_upload.h"

#include <zstd.h>

#include <cstring>
#include <string>

#include "client_stub/core/testing/core_fixture.h"
#include "common/crypto/content_hash.h"
#include "proto/frames.h"

namespace warpline::stub {
namespace {

std::string Compressible() {
  std::string bytes = kPtx;
  for (int i = 0; bytes.size() < 3u << 20; ++i) bytes += "// line " + std::to_string(i) + "\n";
  return bytes;
}

std::string Random() {
  std::string bytes = kPtx;
  uint64_t state = 1;
  while (bytes.size() < 200'000) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    bytes += static_cast<char>('!' + (state >> 33) % 90);
  }
  // Printable characters alone could still be packed.
  for (size_t i = sizeof(kPtx); i < bytes.size(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    bytes[i] = static_cast<char>(state >> 56);
    if (bytes[i] == '\0') bytes[i] = '\1';
  }
  return bytes;
}

class ImageUploadTest : public CoreTest {
 protected:
  void TearDown() override {
    session().SetFeatures(0, true);
    CoreTest::TearDown();
  }

  // The image of the latest load, from its parts.
  static std::string Received() {
    std::string image;
    for (const FakeSession::Sent& sent : session().sent()) {
      if (sent.id == CommandId::kImageData) {
        image += sent.tail;
      } else if (sent.id == CommandId::kImageZstd) {
        cmd::ImageZstd part;
        std::memcpy(&part, sent.body.data(), sizeof(part));
        EXPECT_EQ(part.offset, image.size());
        EXPECT_LE(part.raw, kMaxImagePart);
        const size_t at = image.size();
        image.resize(at + part.raw);
        EXPECT_EQ(ZSTD_decompress(image.data() + at, part.raw, sent.tail.data(), sent.tail.size()),
                  part.raw);
      }
    }
    return image;
  }

  // The server lacks every image that it is asked for by hash.
  static void LackEverything(CommandId question) {
    session().SetAnswer(question, [question](const FakeSession::Sent&, std::string* fields) {
      if (session().Count(CommandId::kImageData) + session().Count(CommandId::kImageZstd) == 0) {
        return kImageMissing;
      }
      if (question == CommandId::kKernelFind) {
        cmd::KernelFindReply reply;
        fields->append(reinterpret_cast<const char*>(&reply), sizeof(reply));
      }
      return CudaResult::kSuccess;
    });
  }

  CUlibrary Library(const std::string& image) {
    CUlibrary library = nullptr;
    EXPECT_EQ(cuLibraryLoadData(&library, image.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0),
              CUDA_SUCCESS);
    return library;
  }
};

TEST_F(ImageUploadTest, AnImageThatTheServerHasIsNotSentAndCostsNoWait) {
  session().SetFeatures(kFeatureModuleCache, true);
  const std::string image = Compressible();
  CUkernel kernel;
  ASSERT_EQ(cuLibraryGetKernel(&kernel, Library(image), "kernel"), CUDA_SUCCESS);
  const auto find = session().Latest<cmd::ImageFind>();
  EXPECT_EQ(find.total, image.size());
  ContentHash hash;
  ASSERT_TRUE(HashContent(image, &hash));
  EXPECT_EQ(std::memcmp(find.sha256, hash.data(), hash.size()), 0);
  EXPECT_EQ(session().Count(CommandId::kImageData), 0);
  EXPECT_EQ(session().Count(CommandId::kKernelFind), 1);
}

TEST_F(ImageUploadTest, AnImageThatTheServerLacksIsSentOnceAndTheLookUpMadeAgain) {
  session().SetFeatures(kFeatureModuleCache, true);
  LackEverything(CommandId::kKernelFind);
  const std::string image = Compressible();
  const CUlibrary library = Library(image);
  CUkernel kernel;
  ASSERT_EQ(cuLibraryGetKernel(&kernel, library, "kernel"), CUDA_SUCCESS);
  EXPECT_EQ(Received(), image);
  EXPECT_EQ(session().Count(CommandId::kKernelFind), 2);
  EXPECT_EQ(session().Count(CommandId::kModuleUnload), 1);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kModuleUnload), 2);
}

TEST_F(ImageUploadTest, ModulesAreSentBeforeTheCallReturnsThatHasTheirImage) {
  session().SetFeatures(kFeatureModuleCache, true);
  LackEverything(CommandId::kModuleCheck);
  std::string image = Compressible();
  const std::string copy = image;
  CUmodule module;
  ASSERT_EQ(cuModuleLoadData(&module, image.c_str()), CUDA_SUCCESS);
  image.assign(image.size(), 'x');
  EXPECT_EQ(Received(), copy);
  EXPECT_EQ(session().Count(CommandId::kModuleCheck), 2);
}

TEST_F(ImageUploadTest, AfterAResetTheServerIsAskedAgain) {
  session().SetFeatures(kFeatureModuleCache, true);
  LackEverything(CommandId::kKernelFind);
  const CUlibrary library = Library(Compressible());
  CUkernel kernel;
  ASSERT_EQ(cuLibraryGetKernel(&kernel, library, "kernel"), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
  session().Clear();
  CUcontext context;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuLibraryGetKernel(&kernel, library, "kernel"), CUDA_SUCCESS);
  CUfunction function;
  ASSERT_EQ(cuKernelGetFunction(&function, kernel), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kImageData) + session().Count(CommandId::kImageZstd), 0);
}

TEST_F(ImageUploadTest, ASmallImageIsSentAtOnce) {
  session().SetFeatures(kFeatureModuleCache, true);
  LoadKernel();
  EXPECT_EQ(session().Count(CommandId::kImageFind), 0);
  EXPECT_EQ(session().Count(CommandId::kImageData), 1);
}

TEST_F(ImageUploadTest, ToAServerElsewhereImagesGoCompressedWhereThatPays) {
  session().SetFeatures(kFeatureCompressedImages, false);
  const std::string image = Compressible();
  CUkernel kernel;
  ASSERT_EQ(cuLibraryGetKernel(&kernel, Library(image), "kernel"), CUDA_SUCCESS);
  EXPECT_EQ(Received(), image);
  EXPECT_EQ(session().Count(CommandId::kImageZstd), 3);
  size_t sent = 0;
  for (const FakeSession::Sent& command : session().sent()) sent += command.tail.size();
  EXPECT_LT(sent, image.size() / 3);

  session().Clear();
  const std::string random = Random();
  ASSERT_EQ(cuLibraryGetKernel(&kernel, Library(random), "kernel"), CUDA_SUCCESS);
  EXPECT_EQ(Received(), random);
  EXPECT_EQ(session().Count(CommandId::kImageZstd), 0);
}

TEST_F(ImageUploadTest, PartsThatDoNotShrinkGoAsTheyAre) {
  session().SetFeatures(kFeatureCompressedImages, false);
  const std::string mixed = Random().substr(0, 150'000) + Compressible();
  CUkernel kernel;
  ASSERT_EQ(cuLibraryGetKernel(&kernel, Library(mixed), "kernel"), CUDA_SUCCESS);
  EXPECT_EQ(Received(), mixed);
  EXPECT_GT(session().Count(CommandId::kImageZstd), 0);
}

TEST_F(ImageUploadTest, OnOneHostNothingIsCompressed) {
  session().SetFeatures(kFeatureCompressedImages, true);
  CUkernel kernel;
  ASSERT_EQ(cuLibraryGetKernel(&kernel, Library(Compressible()), "kernel"), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kImageZstd), 0);
}

}  // namespace
}  // namespace warpline::stub
