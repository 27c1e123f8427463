# Nix flake of haul: `nix build`, `nix run . -- cp -a A B`, `nix flake check`.
{
  description = "Copies file trees on Linux as fast as the hardware allows";

  inputs = {
    nixpkgs.url = "nixpkgs/nixos-unstable";
    # Where the source archive is: fill in. Nix records its hash in flake.lock.
    source = {
      url = "@SOURCE_ADDRESS@/haul-0.1.0.tar.gz";
      flake = false;
    };
  };

  outputs =
    { self, nixpkgs, source }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      each = function: nixpkgs.lib.genAttrs systems (system: function nixpkgs.legacyPackages.${system});
    in
    {
      packages = each (pkgs: {
        default = pkgs.rustPlatform.buildRustPackage {
          pname = "haul";
          version = "0.1.0";
          src = source;
          cargoLock.lockFile = "${source}/Cargo.lock";

          # The whole build is one command; the hook has vendored the crates and set --offline.
          dontCargoBuild = true;
          dontCargoInstall = true;
          doCheck = false;
          installPhase = ''
            runHook preInstall
            cargo --locked xtask install --prefix $out
            runHook postInstall
          '';
          doInstallCheck = true;
          installCheckPhase = ''
            sh packaging/smoke.sh $out/bin/haul
          '';

          meta = {
            description = "Copies file trees on Linux as fast as the hardware allows";
            license = with pkgs.lib.licenses; [ mit asl20 ];
            platforms = systems;
            mainProgram = "haul";
          };
        };
      });
      checks = nixpkgs.lib.genAttrs systems (system: { haul = self.packages.${system}.default; });
    };
}
