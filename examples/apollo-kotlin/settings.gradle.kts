// Version 5 of Apollo's plugin is on Maven Central only.
pluginManagement {
  repositories {
    mavenCentral()
    gradlePluginPortal()
  }
}
