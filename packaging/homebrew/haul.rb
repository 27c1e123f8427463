# Homebrew formula of haul, for Linux. It goes to Formula/ of a tap.
class Haul < Formula
  # Where the source archive is, and its checksum: fill in both.
  SOURCE_ADDRESS = "@SOURCE_ADDRESS@".freeze
  SOURCE_SHA256 = "@SOURCE_SHA256@".freeze

  desc "Copies file trees as fast as the hardware allows"
  homepage SOURCE_ADDRESS
  url "#{SOURCE_ADDRESS}/haul-0.1.0.tar.gz"
  sha256 SOURCE_SHA256
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build
  depends_on :linux

  def install
    system "cargo", "--locked", "xtask", "install", "--prefix", prefix
  end

  test do
    (testpath/"source/file").write "content"
    system bin/"haul", "cp", "-a", "--verify", "source", "target"
    assert_equal "content", (testpath/"target/file").read
    assert_match version.to_s, shell_output("#{bin}/haul --version")
  end
end
