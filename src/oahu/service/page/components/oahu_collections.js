// All collections, or instructions if there are none.
import Thumbnail from "oahu_thumbnail";

export default {
  components: { Thumbnail },
  props: { data: String },
  computed: {
    content() {
      return JSON.parse(this.data);
    },
  },
  template: `
    <div v-if="content.collections.length" class="cards" :class="{ single: content.collections.length === 1 }">
      <a v-for="one in content.collections" :key="one.name" class="card" :href="one.href" :data-collection="one.name">
        <div class="strip" aria-hidden="true"><i v-for="item in one.items" :key="item.key"><Thumbnail :item="item"/></i>
          <span v-if="!one.items.length" class="empty">No items yet</span></div>
        <h2>{{ one.name }}</h2>
        <p v-if="one.error" class="banner">{{ one.error }}</p>
        <dl class="numbers">
          <div><dt>Items</dt><dd data-number="items">{{ one.total.toLocaleString('en') }}</dd></div>
          <div><dt>Constraints learned</dt><dd data-number="constraints">{{ one.constraints.toLocaleString('en') }}</dd></div>
          <div><dt>Learner</dt><dd>{{ one.learner }}</dd></div>
        </dl>
        <div class="weight-bar" aria-hidden="true"><i v-for="space in one.spaces" :key="space.name"
          :style="{ width: 100 * space.weight + '%', background: 'var(--space-' + space.tint + ')' }"></i></div>
      </a>
    </div>
    <section v-else class="instructions">
      <h2>No collections yet</h2>
      <p>A collection is a catalogue of items with features, and a metric that learns from feedback.</p>
      <h3>Try the demo with real images</h3>
      <pre><code>oahu serve --demo</code></pre>
      <h3>Or add your own items</h3>
      <pre><code>{{ content.example }}</code></pre>
      <p class="hint">New collections appear here automatically.</p>
    </section>`,
};
