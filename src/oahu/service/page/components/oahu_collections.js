// The collections of a service, or how to start if there are none.
import Thumbnail from "oahu_thumbnail";

export default {
  components: { Thumbnail },
  props: { data: String },
  computed: {
    d() {
      return JSON.parse(this.data);
    },
  },
  template: `
    <div v-if="d.collections.length" class="cards" :class="{ single: d.collections.length === 1 }">
      <a v-for="one in d.collections" :key="one.name" class="card" :href="one.href" :data-collection="one.name">
        <div class="strip" aria-hidden="true"><i v-for="item in one.items" :key="item.key"><Thumbnail :item="item"/></i>
          <span v-if="!one.items.length" class="empty">No items yet</span></div>
        <h2>{{ one.name }}</h2>
        <p v-if="one.error" class="banner">{{ one.error }}</p>
        <dl class="dials">
          <div><dt>Items</dt><dd data-dial="items">{{ one.total.toLocaleString('en') }}</dd></div>
          <div><dt>Learned</dt><dd data-dial="constraints">{{ one.constraints.toLocaleString('en') }}</dd></div>
          <div><dt>Learner</dt><dd>{{ one.learner }}</dd></div>
        </dl>
        <div class="mix" aria-hidden="true"><i v-for="(part, at) in one.parts" :key="at"
          :style="{ width: 100 * part.now + '%', background: 'var(--part-' + part.tint + ')' }"></i></div>
      </a>
    </div>
    <section v-else class="start">
      <h2>Nothing here yet</h2>
      <p>A collection is a catalogue of items with features, and a metric that learns what is alike from every click.</p>
      <h3>Try it with real images</h3>
      <pre><code>oahu serve --demo</code></pre>
      <h3>Or bring your own</h3>
      <pre><code>{{ d.example }}</code></pre>
      <p class="hint">What you add appears here by itself.</p>
    </section>`,
};
