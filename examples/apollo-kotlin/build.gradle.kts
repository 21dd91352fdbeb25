plugins {
  kotlin("jvm") version "2.3.10"
  id("com.apollographql.apollo") version "5.1.0"
}

repositories {
  mavenCentral()
}

dependencies {
  implementation("com.apollographql.apollo:apollo-runtime:5.1.0")
  implementation("com.apollographql.cache:normalized-cache:1.0.6")
}

apollo {
  service("tallyfeed") {
    packageName.set("com.example.tallyfeed")
    srcDir("../operations")
    schemaFiles.from("../../schema.graphqls", "extra.graphqls")
    mapScalarToKotlinString("DateTime")
    // For --trusted-documents of the server.
    operationManifestFormat.set("persistedQueryManifest")
    plugin("com.apollographql.cache:normalized-cache-apollo-compiler-plugin:1.0.6")
    pluginArgument("com.apollographql.cache.packageName", packageName.get())
  }
}
